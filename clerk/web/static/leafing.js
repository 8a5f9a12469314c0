// The arrow keys leaf through the pages of a document, wherever its links to the pages before and after lead.
"use strict";

const WAYS = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };

document.addEventListener("keydown", (event) => {
  const taken = event.target.closest("input, textarea, select, [tabindex]");
  const link = WAYS[event.key] && document.querySelector(WAYS[event.key]);
  // Where the keys already mean something, as in a field or in what they scroll, they go on meaning it.
  if (link && !taken && !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    link.click();
  }
});

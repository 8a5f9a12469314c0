// The arrow keys leaf through the pages of a document, wherever its links to the pages before and after lead. Where the
// image of a page does not come, the sentence beside it says so.
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

for (const image of document.querySelectorAll(".leaf img")) {
  const tell = () => {
    image.closest("a").hidden = true;
    image.closest("figure").querySelector("p").hidden = false;
  };
  image.addEventListener("error", tell);
  // It may have failed before this was loaded.
  if (image.complete && !image.naturalWidth) {
    tell();
  }
}

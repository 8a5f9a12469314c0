// On a document's page, the arrow keys open the previous and next page. If the image of a page cannot be loaded, the
// message beside it is shown.
const LINKS = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" };

document.addEventListener("keydown", (event) => {
  // Fields and scrollable elements use the arrow keys themselves.
  const usesKeys = event.target.closest("input, textarea, select, [tabindex]");
  const link = LINKS[event.key] && document.querySelector(LINKS[event.key]);
  if (link && !usesKeys && !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    link.click();
  }
});

for (const image of document.querySelectorAll(".page-view img:not(.matches)")) {
  const showMessage = () => {
    image.closest("a").hidden = true;
    image.closest("figure").querySelector("p").hidden = false;
  };
  image.addEventListener("error", showMessage);
  // Loading may have failed before this script ran.
  if (image.complete && !image.naturalWidth) {
    showMessage();
  }
}

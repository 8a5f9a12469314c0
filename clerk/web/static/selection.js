// Selection of rows: "select all" without loading the page again, and the number of selected rows. The checkboxes are
// fields of a form that works without this script.
const form = document.getElementById("selection");
const boxes = () => [...document.querySelectorAll('input[type="checkbox"][form="selection"]')];

function show() {
  const selected = boxes().filter((box) => box.checked).length;
  form.querySelector("[data-selected]").textContent = selected ? selected.toLocaleString("en") + " selected" : "";
  form.querySelector("[data-select-all]").textContent = selected ? "Select none" : "Select all";
}

if (form) {
  form.querySelector("[data-select-all]").addEventListener("click", (event) => {
    event.preventDefault();
    const checked = !boxes().some((box) => box.checked);
    for (const box of boxes()) {
      box.checked = checked;
    }
    show();
  });
  document.addEventListener("change", show);
  // A browser restores the ticks when the user goes back.
  window.addEventListener("pageshow", show);
  show();
}

// Keyboard shortcuts, and the buttons that copy a command. The dialog in base.html lists the shortcuts.
const ROWS = "main tbody tr, main .hits > li";
const ROW_LINK = "th a[href], h2 a[href], td a[href]";
const dialog = document.getElementById("shortcuts");

document.documentElement.classList.add("js");

// The link that opens each row. Links keep the focus visible, and the browser opens them with Enter.
function rowLinks() {
  return [...document.querySelectorAll(ROWS)]
    .map((row) => row.querySelector(ROW_LINK))
    .filter((link) => link && link.checkVisibility());
}

function moveRow(step) {
  const links = rowLinks();
  const row = document.activeElement.closest(ROWS);
  const current = row ? links.findIndex((link) => row.contains(link)) : -1;
  const next = current < 0 && step < 0 ? links.length - 1 : current + step;
  if (links[next]) {
    // The browser shows the outline only after a key press, which this is.
    links[next].focus({ focusVisible: true });
    links[next].scrollIntoView({ block: "nearest" });
  }
}

function focusSearch() {
  const field = document.querySelector("main input[name=q], #search-text");
  field?.focus();
  field?.select();
}

const SHORTCUTS = {
  "/": focusSearch,
  j: () => moveRow(1),
  k: () => moveRow(-1),
  "?": () => dialog.showModal(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const shortcut = SHORTCUTS[event.key];
  if (shortcut && !typing && !dialog.open && !event.altKey && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    shortcut();
  }
});

document.addEventListener("click", async (event) => {
  if (event.target.closest("[data-shortcuts]")) {
    dialog.showModal();
  }
  const button = event.target.closest("[data-copy]");
  if (button) {
    await copy(button);
  }
});

async function copy(button) {
  const command = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = "Copied";
  } catch {
    // Browsers offer the clipboard only on HTTPS and on this machine, and may refuse it: select the text instead.
    getSelection().selectAllChildren(command);
    button.textContent = "Selected: press Ctrl-C";
  }
}

// Updates the live parts of a page in place with server-sent events. idiomorph changes only the nodes that differ, so
// focus, scroll position and selected text stay.
import { Idiomorph } from "./vendor/idiomorph-0.8.0.esm.js";

const RECONNECT_DELAY = 5000;
const MORPH_OPTIONS = {
  morphStyle: "innerHTML",
  callbacks: {
    // The server always sends <details> closed, and checkboxes as they were first. Keep what the user has changed.
    beforeAttributeUpdated: (name, element) =>
      !(name === "open" && element.nodeName === "DETAILS") && !(name === "checked" && element.nodeName === "INPUT"),
  },
};
const status = document.getElementById("live");
let source = null;
let reconnectTimer = null;

const announcement = document.getElementById("announcement");

function showStatus(state, text) {
  // Screen readers hear of a lost and a restored connection, not of each update.
  if (state !== status.className && (state === "lost" || status.className === "lost")) {
    announce(state === "lost" ? text : "Live updates resumed");
  }
  status.className = state;
  status.textContent = text;
}

function announce(text) {
  announcement.textContent = text;
}

// The text of a part that screen readers should hear when it changes.
function announcedText(part) {
  return part.querySelector("[data-announce], .explanation")?.textContent.trim().replace(/\s+/g, " ") ?? "";
}

function connect() {
  disconnect();
  source = new EventSource("/events?page=" + encodeURIComponent(location.pathname + location.search));
  source.addEventListener("update", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById("part-" + name);
      if (part) {
        const before = announcedText(part);
        Idiomorph.morph(part, html, MORPH_OPTIONS);
        const after = announcedText(part);
        if (after && after !== before) {
          announce(after);
        }
      }
    }
    showStatus("live", "Live, " + new Date().toISOString().slice(11, 19) + " UTC");
  });
  source.addEventListener("unavailable", () => showStatus("lost", "No new data, retrying"));
  source.addEventListener("error", () => {
    showStatus("lost", "Connection lost, retrying");
    // A browser reconnects on its own, except after an HTTP error.
    if (source.readyState === EventSource.CLOSED) {
      reconnectTimer = setTimeout(connect, RECONNECT_DELAY);
    }
  });
}

function disconnect() {
  clearTimeout(reconnectTimer);
  if (source) {
    source.close();
    source = null;
  }
}

function connectIfVisible() {
  if (document.visibilityState === "visible") {
    connect();
  } else {
    disconnect();
  }
}

if (document.querySelector("[data-part]")) {
  status.hidden = false;
  showStatus("", "Connecting");
  document.addEventListener("visibilitychange", connectIfVisible);
  // Without this, leaving the page would show "Connection lost" for a moment.
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connectIfVisible);
}

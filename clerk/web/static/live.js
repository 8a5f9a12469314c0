// Keeps the parts of a page up to date that the server marks as live. Changes only what differs, so that nothing
// flickers, and focus, scrolling, selected text and what was unfolded stay.
const AGAIN_AFTER = 5000;
const status = document.getElementById("live");
let source = null;
let again = null;

function say(state, words) {
  status.className = state;
  status.textContent = words;
}

function listen() {
  stop();
  source = new EventSource("/events?page=" + encodeURIComponent(location.pathname + location.search));
  source.addEventListener("look", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById("part-" + name);
      if (part) {
        const fresh = document.createElement("template");
        fresh.innerHTML = html;
        matchChildren(part, fresh.content);
      }
    }
    const now = new Date().toISOString();
    say("live", "Live, " + now.slice(11, 19) + " UTC");
  });
  source.addEventListener("trouble", () => say("lost", "Nothing to show right now, trying again"));
  source.addEventListener("error", () => {
    say("lost", "Connection lost, trying again");
    // A browser tries again by itself, unless it was answered with an error.
    if (source.readyState === EventSource.CLOSED) {
      again = setTimeout(listen, AGAIN_AFTER);
    }
  });
}

function stop() {
  clearTimeout(again);
  if (source) {
    source.close();
    source = null;
  }
}

// Make `node` what `fresh` is, in place where they are alike.
function match(node, fresh) {
  if (node.isEqualNode(fresh)) {
    return;
  }
  if (node.nodeName !== fresh.nodeName || node.id !== fresh.id) {
    node.replaceWith(fresh);
  } else if (node.nodeType === Node.ELEMENT_NODE) {
    matchAttributes(node, fresh);
    matchChildren(node, fresh);
  } else if (node.nodeValue !== fresh.nodeValue) {
    node.nodeValue = fresh.nodeValue;
  }
}

function matchAttributes(node, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (node.getAttribute(name) !== value) {
      node.setAttribute(name, value);
    }
  }
  for (const { name } of [...node.attributes]) {
    // Whether something is unfolded is the reader's business.
    if (!fresh.hasAttribute(name) && !(name === "open" && node.nodeName === "DETAILS")) {
      node.removeAttribute(name);
    }
  }
}

function matchChildren(node, fresh) {
  const wanted = [...fresh.childNodes];
  wanted.forEach((child, place) => {
    const present = node.childNodes[place];
    if (present) {
      match(present, child);
    } else {
      node.append(child);
    }
  });
  while (node.childNodes.length > wanted.length) {
    node.lastChild.remove();
  }
}

function listenIfSeen() {
  if (document.visibilityState === "visible") {
    listen();
  } else {
    stop();
  }
}

if (document.querySelector("[data-part]")) {
  status.hidden = false;
  say("", "Connecting");
  document.addEventListener("visibilitychange", listenIfSeen);
  // Without this, leaving the page would show a lost connection for a moment.
  window.addEventListener("pagehide", stop);
  window.addEventListener("pageshow", listenIfSeen);
}

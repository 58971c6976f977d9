// In a narrow window the menu covers the page, and Streamlit leaves it open when the visitor has
// chosen a page. Streamlit also remembers that it was open; a click on the menu's own close button
// makes it forget that. A change of the address within a page makes no new entry in the history:
// Back leads to the page before. It keeps what is behind #, which Streamlit would drop.
const NARROW = 768; // pixels, as in Streamlit

export default function () {
  history.pushState = (...entry) => write("pushState", ...entry);
  history.replaceState = (...entry) => write("replaceState", ...entry);
  // The visitor may have chosen a page before this module was loaded.
  closeMenuOnArrival();
}

function closeMenuOnArrival() {
  if (window.lcvizArrivedAt === location.pathname) return;
  window.lcvizArrivedAt = location.pathname;
  if (innerWidth > NARROW) return;
  document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
}

function write(how, state, title, url) {
  const next = new URL(url ?? "", location.href);
  const same = next.pathname === location.pathname;
  if (same && !next.hash && location.hash.includes("=")) next.hash = location.hash; // the board's moment
  History.prototype[same ? "replaceState" : how].call(history, state, title, next.href);
  if (how === "pushState") closeMenuOnArrival();
}

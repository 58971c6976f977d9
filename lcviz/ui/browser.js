// In a narrow window the menu covers the page, and Streamlit leaves it open when the visitor has
// chosen a page. Streamlit also remembers that it was open; a click on the menu's own close button
// makes it forget that. A change of the address within a page makes no new entry in the history:
// Back leads to the page before.
const NARROW = 768; // pixels, as in Streamlit

export default function () {
  history.pushState = (state, title, url) => {
    const same = new URL(url ?? "", location.href).pathname === location.pathname;
    History.prototype[same ? "replaceState" : "pushState"].call(history, state, title, url);
    closeMenuOnArrival();
  };
  // The visitor may have chosen a page before this module was loaded.
  closeMenuOnArrival();
}

function closeMenuOnArrival() {
  if (window.lcvizArrivedAt === location.pathname) return;
  window.lcvizArrivedAt = location.pathname;
  if (innerWidth > NARROW) return;
  document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
}

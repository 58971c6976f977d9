// Where the pictures stand. Each has a shadow of its own, as in the dashboard: their styles do not meet.

/** @param {string} id */
const find = (id) => document.getElementById(id);
/** The place of a picture. @param {string} name */
const card = (name) => document.querySelector(`[data-place="${name}"]`);

/** Place -> the module that drew it last. */
const drawnBy = new Map();

/**
 * Word and draw a picture in its place.
 * @param {HTMLElement} place
 * @param {any} data
 * @param {(event: string, value: any) => void} send
 */
function drawIn(place, data, send) {
  data = said(data);
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  if (drawnBy.get(place) !== data.picture) {
    // Buckets and equal steps take turns in one place.
    root.replaceChildren(make("style", {}, PICTURE_STYLE), make("div"));
    drawnBy.set(place, data.picture);
  }
  DRAW[data.picture]({ data, parentElement: root.lastElementChild, setTriggerValue: send });
}

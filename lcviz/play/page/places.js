// Where the pictures stand. Each has a shadow of its own, as in the dashboard: their styles do not meet.

/** @param {string} id */
const find = (id) => ROOT.querySelector(`#${id}`);
/** The place of a picture. @param {string} name */
const card = (name) => ROOT.querySelector(`[data-place="${name}"]`);
const board = find("board");
/** What has the focus, outside of pictures. */
const focused = () => ROOT.getRootNode().activeElement ?? document.activeElement ?? document.body;

const closing = new AbortController();
/** Listen until the board is closed. @param {EventTarget} to @param {string} event @param {(event: any) => void} act */
const listen = (to, event, act) => to.addEventListener(event, act, { signal: closing.signal });

/** Place -> the module that drew it last. */
const drawnBy = new Map();

/**
 * Word and draw a picture in its place.
 * @param {HTMLElement} place
 * @param {any} data
 * @param {(event: string, value: any) => void} send
 */
function drawIn(place, data, send) {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  if (typeof data === "string") {
    // What stands in the place of a picture.
    root.replaceChildren(make("style", {}, PICTURE_STYLE), make("p", { class: "text" }, data));
    drawnBy.delete(place);
    return;
  }
  data = said(data);
  if (place.dataset.higher && data.height) data = { ...data, height: data.height + Number(place.dataset.higher) };
  if (drawnBy.get(place) !== data.picture) {
    // Buckets and equal steps take turns in one place.
    root.replaceChildren(make("style", {}, PICTURE_STYLE), make("div"));
    drawnBy.set(place, data.picture);
  }
  DRAW[data.picture]({ data, parentElement: root.lastElementChild, setTriggerValue: send });
}

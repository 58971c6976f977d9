// What every picture shares. Streamlit calls a picture's default function each time its values
// change: a picture keeps its elements and changes them in place.

const SVG = "http://www.w3.org/2000/svg";
const HALO = "paint-order: stroke; stroke: var(--paper); stroke-width: 3px;"; // around a text that crosses a line

/** Make an element. attributes: as in HTML; children: elements or text. */
function make(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "rect", "line", "path", "text", "circle", "tspan", "title", "clipPath"].includes(tag);
  const element = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  set(element, attributes);
  element.append(...children);
  return element;
}

/**
 * Set attributes; null or false removes one, true sets it without a value. One that has its value
 * is left alone: the browser would work out its style again.
 */
function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const text = value === true ? "" : String(value);
    if (value === null || value === false || value === undefined) element.removeAttribute(name);
    else if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
  return element;
}

/** A drawing of groups, the later ones over the earlier ones. */
const layers = (...names) => make("svg", { role: "presentation" }, ...names.map((name) => make("g", { class: name })));

/** The children of a place, which create() makes when it is drawn for the first time. */
function built(place, create) {
  if (!place.children.length) place.append(...create());
  return place.children;
}

/** Give a parent one child for each item, keep those with a key that is there already, in order. */
function each(parent, items, create, update, key = (_, i) => i) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const now = items.map((item, i) => {
    const name = String(key(item, i));
    const child = old.get(name) ?? create(item, i);
    child.dataset.key = name;
    update(child, item, i);
    return child;
  });
  if (now.length === parent.children.length && now.every((child, i) => parent.children[i] === child)) return;
  const { activeElement } = parent.getRootNode();
  parent.replaceChildren(...now);
  if (now.includes(activeElement)) activeElement.focus(); // it lost the focus as it was moved
}

/** The frame of a picture, made once: number, title, what it shows, room for controls, the body. */
function frame({ data, parentElement }) {
  let figure = parentElement.querySelector("figure");
  if (!figure) {
    const head = [make("span", { class: "number", "aria-hidden": "true" }), make("b"), make("span", { class: "about" }), make("span", { class: "controls" })];
    const copy = make("button", { type: "button", class: "copy", title: "Copy as picture", "aria-label": "Copy as picture" });
    const parts = [make("figcaption", {}, ...head), make("div", { class: "body" }), make("p", { class: "text" }), copy];
    figure = make("figure", { "data-picture": data.picture, role: "group" }, ...parts);
    parentElement.append(figure);
  }
  const [caption, body, , copy] = figure.children;
  const text = figure.querySelector("p.text");
  const [number, title, about, controls] = caption.children;
  set(figure, { "data-title": data.title }); // where one module draws several pictures of a page
  copy.onclick = () => offerCopy(copy, figure, plain(data.title));
  number.textContent = data.number ?? "";
  number.hidden = !data.number;
  write(title, data.help ? `[[${data.title}]]` : data.title, { [data.title]: data });
  about.textContent = data.about ?? "";
  write(text, data.text, data.terms);
  announce(figure, `${data.title}. ${data.text}`);
  return { figure, controls, body, text };
}

const MARKED = /\[\[(.+?)\]\]|\{\{([\w-]+)=([^|]*)\|(.*?)\}\}/g;

/**
 * A text whose words between [[ and ]] explain themselves, and whose numbers {{name=value|text}} say
 * what they are. terms: word -> { help, link }. Nothing changes while the text is the same: what is
 * explained just now stays.
 */
function write(place, text, terms = {}) {
  if (place.written === text) return;
  place.written = text;
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(MARKED)) {
    parts.push(text.slice(end, found.index));
    end = found.index + found[0].length;
    const [, word, name, value, shown] = found;
    if (word) parts.push(terms[word] ? term(word, terms[word]) : word);
    else parts.push(make("span", { "data-quantity": name, "data-value": value }, shown));
  }
  place.replaceChildren(...parts, text.slice(end));
}

/** A text as it is read aloud or shown where nothing can be marked. */
const plain = (text) => text.replace(MARKED, (_, word, name, value, shown) => word ?? shown);

const TIP = 140; // pixels, the height of most explanations

/** A word, explained while the pointer or the focus is on it; where there is a glossary, its link. */
function term(shown, { help, link }) {
  const name = `term-${shown}`;
  const word = make("button", { type: "button", class: "term", "aria-describedby": name }, shown);
  const tip = make("span", { class: "tip" }, make("span", { id: name }, help));
  if (link) tip.append(" ", make("a", { href: link, target: "_blank", rel: "noopener" }, "Glossary"));
  word.onclick = () => word.focus(); // not every browser does it
  const whole = make("span", { class: "explained" }, word, tip);
  const open = () => set(tip, { hidden: false, class: word.getBoundingClientRect().bottom > innerHeight - TIP ? "tip above" : "tip" });
  // With braces: a handler that returns false would keep Tab from going on.
  const close = ({ key }) => {
    if (key === "Escape") set(tip, { hidden: true });
  };
  whole.onkeydown = close;
  word.onfocus = open;
  whole.onpointerenter = () => {
    open();
    document.addEventListener("keydown", close);
  };
  whole.onpointerleave = () => document.removeEventListener("keydown", close);
  return whole;
}

/** What the button in the corner does: it copies the picture for a slide, and says so. */
async function offerCopy(button, figure, title) {
  button.textContent = "…";
  const copied = await copyPicture(figure, title);
  button.textContent = copied ? "✓" : "↓";
  set(button, { title: copied ? "Copied" : "Saved as a file: this browser lets no page copy pictures" });
  setTimeout(() => (button.textContent = ""), 2000);
}

/** Put a figure, with the link to it, on the clipboard as PNG; else save it as a file. */
async function copyPicture(figure, title) {
  const image = drawnPicture(figure);
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
    return true;
  } catch {
    const link = make("a", { href: URL.createObjectURL(await image), download: `${title.replaceAll(/[^\p{L}\p{N}]+/gu, "-")}.png` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    return false;
  }
}

const SHARPER = 3; // pixels of a copied picture for one on the screen
const MARGIN = 12; // pixels around it
const FOOT = 64; // pixels, of the link, and of lines that another font breaks

/** A figure as a PNG: a browser draws HTML into an image only as a part of an SVG, without links. */
async function drawnPicture(figure) {
  const width = figure.clientWidth + 2 * MARGIN;
  const copy = figure.cloneNode(true);
  const canvases = [...figure.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const image = make("img", { src: canvases[i].width ? canvases[i].toDataURL() : "", style: canvas.getAttribute("style"), class: canvas.className });
    canvas.replaceWith(image);
  });
  const useless = ".copy, .told, [hidden], .choices button[aria-pressed=false], .handle, .drag";
  for (const part of copy.querySelectorAll(useless)) part.remove();
  const styles = [...figure.getRootNode().querySelectorAll("style")].map((style) => style.textContent).join("\n");
  const own = getComputedStyle(figure);
  const variables = [...new Set(styles.match(/--st-[\w-]+/g))].map((name) => `${name}: ${own.getPropertyValue(name)};`);
  const page = make("div", { class: "copied", xmlns: "http://www.w3.org/1999/xhtml" });
  page.append(
    make("style", {}, `.copied { ${variables.join(" ")} background: var(--paper); padding: ${MARGIN}px; } .copied img { image-rendering: pixelated; }`),
    make("style", {}, styles.replaceAll(":host", ".copied").replaceAll(" canvas", " img")),
    copy,
    make("div", { style: "font: 10px sans-serif; color: var(--faint); overflow-wrap: anywhere; margin-top: 8px" }, location.href),
  );
  const height = figure.clientHeight + 2 * MARGIN + FOOT;
  const svg = `<svg xmlns="${SVG}" width="${width}" height="${height}"><foreignObject width="100%" height="100%">${new XMLSerializer().serializeToString(page)}</foreignObject></svg>`;
  const image = make("img");
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = make("canvas", { width: SHARPER * width, height: SHARPER * height });
  const pen = canvas.getContext("2d");
  pen.scale(SHARPER, SHARPER);
  pen.drawImage(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** What a screen reader says of a picture. */
const announce = (figure, text) => set(figure, { "aria-label": plain(text) });

const ANSWER = 2000; // milliseconds until what was asked for and did not come is taken back

/** Show some values as they will be once the server has answered. body.again() draws anew. */
function expect(body, values) {
  body.expected = { ...body.expected, ...values };
  clearTimeout(body.patience);
  body.patience = setTimeout(() => {
    body.expected = {};
    body.again();
  }, ANSWER);
  body.again();
}

/** Whether two plain values are alike. */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

/** The data with what is still expected of it: other changes may come before the answer. */
function withExpected(body, data) {
  for (const [name, value] of Object.entries(body.expected ?? {})) if (same(value, data[name])) delete body.expected[name];
  return { ...data, ...body.expected };
}

/** Buttons of which one is pressed. options: [value, text, why it cannot be chosen]; choose(value) on a click. */
function choices(parent, label, options, chosen, choose, prefix = "") {
  let group = parent.querySelector(`[aria-label="${label}"]`);
  if (!group) {
    if (prefix) parent.append(make("span", { class: "about" }, prefix));
    parent.append((group = make("span", { class: "choices", role: "group", "aria-label": label })));
  }
  each(
    group,
    options,
    () => make("button", { type: "button" }),
    (button, [value, text, whyNot]) => {
      button.textContent = text;
      button.onclick = () => choose(value);
      set(button, { "aria-pressed": String(value === chosen), disabled: Boolean(whyNot), title: whyNot || null });
    },
  );
}

/** What an element of a picture says while the pointer or the focus is on it: a box beside it; null takes it away. */
function tell(body, at, ...rows) {
  let box = body.querySelector(":scope > .told");
  if (!box) body.append((box = make("div", { class: "told", role: "status" })));
  set(box, { hidden: !at });
  if (!at) return;
  box.replaceChildren(...rows.map((row) => make("div", {}, row)));
  const [place, around] = [at, body].map((element) => element.getBoundingClientRect());
  const left = Math.max(Math.min(place.left - around.left + 10, around.width - box.offsetWidth), 0);
  const below = place.bottom - around.top + 8;
  const above = place.top - around.top - box.offsetHeight - 8;
  box.style.cssText = `left: ${left}px; top: ${above > -30 ? above : below}px`;
}

/**
 * Parts that answer: say(item) gives the rows that are told on hover and on focus, use(item) happens
 * on a click and on Enter. One of them is in the tab order, arrow keys go to the others.
 */
function answering(body, parent, parts, { say, use, point }) {
  const all = [...parent.children];
  const here = all.find((part) => part.getAttribute("tabindex") === "0") ?? all[0];
  all.forEach((part, i) => {
    const item = parts[i];
    const rows = say(item);
    set(part, { tabindex: part === here ? 0 : -1, role: "button", "aria-label": rows.join(", ") });
    part.onpointerenter = part.onfocus = () => {
      tell(body, part, ...rows);
      point(item);
    };
    part.onpointerleave = part.onblur = () => {
      tell(body, null);
      point(null);
    };
    part.onclick = () => use(item);
    part.onkeydown = (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by) {
        const next = all[(i + by + all.length) % all.length];
        set(part, { tabindex: -1 });
        set(next, { tabindex: 0 });
        next.focus();
      } else if (event.key === "Enter" || event.key === " ") use(item);
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
  });
}

/**
 * Tell all pictures of the page what is pointed at: { pixel, bucket, level, levels }, each undefined
 * if there is none. levels: the smallest and the largest of them.
 */
const pointAt = (what) => document.dispatchEvent(new CustomEvent("lcviz-point", { detail: what ?? {} }));

/** Call show({ pixel, bucket, level, levels }) whenever a picture points at something. */
function onPointing(body, show) {
  body.pointed = show;
  if (body.listens) return;
  body.listens = true;
  const listen = ({ detail }) => (body.isConnected ? body.pointed(detail) : document.removeEventListener("lcviz-point", listen));
  document.addEventListener("lcviz-point", listen);
}

const stayHere = (event) => event.preventDefault();

/** How far a key moves a handle. */
const MOVES = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

/**
 * Let a mouse, a pen or a finger drag a handle: move(event) at each step between begin() and end().
 * Keys move it by(steps). A finger on it never scrolls the page: the browser would take the drag away
 * after some pixels.
 */
function draggable(handle, { begin, move, end, by }) {
  handle.addEventListener("touchstart", stayHere, { passive: false }); // once, however often it is drawn
  handle.onpointerdown = (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.dragged = true;
    begin();
  };
  handle.onpointermove = (event) => handle.dragged && move(event);
  handle.onpointerup = handle.onpointercancel = () => {
    if (handle.dragged) end();
    handle.dragged = false;
  };
  handle.onkeydown = (event) => {
    if (!MOVES[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    by(MOVES[event.key]);
  };
}

/** Heights of bars by the logarithm of what they count, at most so many pixels; all can be seen. */
const logHeights = (largest, most) => (count) => (count ? Math.max(2, (most * Math.log10(count + 1)) / (Math.log10(largest + 1) || 1)) : 0);

/** Bytes from base64, as Uint8Array. */
function unpacked(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** Make a canvas show an image, pixel by pixel. */
function put(canvas, image) {
  set(canvas, { width: image.width, height: image.height });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Whether whoever looks has asked for less motion. */
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The colours of the theme, as [red, green, blue]. */
function colour(element, name) {
  const probe = make("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  probe.fillStyle = getComputedStyle(element).getPropertyValue(name).trim() || "#808080";
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

/**
 * Call draw(width) now and whenever the body gets another width. It is read only then: to ask for a
 * width between two changes makes the browser lay out the whole page.
 */
function fitted(body, draw) {
  body.draw = draw;
  if (!body.fitting) {
    body.width = body.clientWidth;
    body.fitting = new ResizeObserver(() => {
      const width = body.clientWidth;
      if (width && width !== body.width) body.draw((body.width = width));
    });
    body.fitting.observe(body);
  }
  draw(body.width || 400);
}

const LABEL_FONT = "11px"; // as `svg text` in pictures.css
const LINE = 12; // pixels: labels further apart in height do not touch
const LABEL_GAP = 2; // pixels between two labels of one height

/**
 * A function (text, row, { x, y }) that says whether a label centred at x has room: it is at most
 * that wide, and clear of the label before it in its row. It remembers the last one of each row.
 */
function labelRoom(body, widest) {
  const pen = (body.pen ??= make("canvas").getContext("2d"));
  body.family ??= getComputedStyle(body).fontFamily;
  pen.font = `${LABEL_FONT} ${body.family}`;
  const last = {};
  return (text, row, { x, y }) => {
    const { width } = pen.measureText(text);
    const before = last[row];
    const isClear = !before || Math.abs(y - before.y) >= LINE || x - before.x >= (width + before.width) / 2 + LABEL_GAP;
    if (width > widest || !isClear) return false;
    last[row] = { x, y, width };
    return true;
  };
}

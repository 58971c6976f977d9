// One tensor as an image: grey weights, and what this checkpoint moves in colour.

const VIEWS = [["written", "written"], ["live", "live"], ["restored", "restored"], ["missing", "postponed"]];

export default function (component) {
  const { data, setTriggerValue } = component;
  const views = VIEWS.filter(([name]) => name === "written" || data.maps[name]);
  const seen = component.parentElement.querySelector(".body")?.view;
  const first = views.some(([name]) => name === seen) ? seen : "written";
  const { figure, controls, body } = frame({ ...component, data: { ...data, text: data.captions[first] } });
  body.view = first;
  chooseTensor(controls, data, setTriggerValue);
  if (!body.children.length)
    body.append(
      make("div", { class: "map", role: "img" }, make("canvas"), make("canvas", { class: "glow" }), make("canvas", { class: "changes" })),
      make("div", { class: "under" }, make("span", { class: "key" }), make("span")),
      make("style", {}, STYLE),
    );
  const [map, under] = body.children;
  const draw = () => {
    choices(under.children[1], "What is shown", views, body.view, (view) => {
      body.view = view;
      draw();
    });
    paint(map, data, body.view);
    write(figure.querySelector("p.text"), data.captions[body.view], data.terms);
    under.firstChild.replaceChildren();
    const colours = body.view === "written" || body.view === "missing";
    if (colours) under.firstChild.append(key("up", "up"), key("down", "down"));
    if (body.view !== "missing") under.firstChild.append(key("grey", "weight"));
  };
  draw();
  if (body.step !== data.step && !still()) {
    const [weights, glow] = map.children;
    weights.animate({ opacity: [0.5, 1] }, FLASH);
    glow.animate({ opacity: [1, 0.75] }, FLASH);
  }
  body.step = data.step;
}

const FLASH = { duration: 500, easing: "ease-out" };
const key = (colour, text) => make("span", {}, make("i", { style: `background: var(--${colour})` }), text);

function chooseTensor(controls, data, send) {
  let select = controls.querySelector("select");
  if (data.tensors.length < 2) return select?.remove();
  if (!select) controls.append((select = make("select", { "aria-label": "Tensor" })));
  each(select, data.tensors, (name) => name, (name) => make("option", { value: name }, name));
  select.value = data.tensor;
  set(select, { title: data.tensor }); // a long name is cut
  select.onchange = () => send("tensor", select.value);
}

const LARGEST = 7; // level of a map
const GAP = -8; // between two tiles

/** The n values of a map, -8 to 7: base64 of two a byte, the low half first. */
function levels(text, n) {
  const bytes = unpacked(text);
  const found = new Int8Array(n);
  for (let i = 0; i < n; i++) found[i] = (bytes[i >> 1] << (i % 2 ? 24 : 28)) >> 28;
  return found;
}

function paint(map, data, view) {
  const [rows, columns] = data.shape;
  const around = map.getRootNode().host ?? map;
  const paper = colour(map, "--paper");
  const ink = colour(map, "--ink");
  const [up, down] = [[213, 94, 0], [0, 114, 178]];
  const image = (values, pixel) => {
    const found = new ImageData(columns, rows);
    for (let i = 0; i < values.length; i++) pixel(found.data, 4 * i, values[i]);
    return found;
  };
  const put = (canvas, found) => {
    set(canvas, { width: columns, height: rows });
    canvas.getContext("2d").putImageData(found, 0, 0);
  };
  const grey = (out, at, value) => {
    const share = 0.55 * (Math.abs(value) / LARGEST);
    for (let c = 0; c < 3; c++) out[at + c] = paper[c] + (ink[c] - paper[c]) * share;
    out[at + 3] = value === GAP ? 0 : 255;
  };
  const signed = (strength) => (out, at, value) => {
    if (value === 0 || value === GAP) return;
    const from = value > 0 ? up : down;
    for (let c = 0; c < 3; c++) out[at + c] = from[c];
    out[at + 3] = 255 * strength(Math.abs(value) / LARGEST);
  };
  const [weights, glow, changes] = map.children;
  const base = view === "live" ? data.maps.live : data.maps.restored ?? data.maps.live;
  const nothing = new ImageData(columns, rows);
  put(weights, view === "missing" || !base ? nothing : image(levels(base, rows * columns), grey));
  const shown = view === "written" ? data.maps.written : view === "missing" ? data.maps.missing : null;
  const over = shown ? image(levels(shown, rows * columns), signed(view === "written" ? () => 1 : (v) => 0.15 + 0.85 * v)) : nothing;
  put(changes, over);
  const room = (map.room ||= map.clientWidth) || 380;
  const scale = Math.min(room / columns, data.height / rows);
  const coarse = (n) => Math.ceil((n * scale) / BLUR);
  set(glow, { width: coarse(columns), height: coarse(rows) });
  const light = glow.getContext("2d");
  light.clearRect(0, 0, glow.width, glow.height);
  if (view === "written") light.drawImage(changes, 0, 0, glow.width, glow.height);
  const size = `width: ${Math.floor(columns * scale)}px; height: ${Math.floor(rows * scale)}px`;
  for (const canvas of map.children) set(canvas, { style: size });
  set(map, { style: `height: ${Math.floor(rows * scale)}px`, "aria-label": data.text });
  if (!map.fitting) {
    map.fitting = new ResizeObserver(() => map.again());
    map.fitting.observe(around);
  }
  map.again = () => {
    const width = map.clientWidth;
    if (width && width !== map.room) paint(Object.assign(map, { room: width }), data, view);
  };
}

// The glow is a coarse copy that the browser smooths. A filter would be computed for every frame.
const BLUR = 6; // pixels of the screen in one of the copy

const STYLE = `
  .map { position: relative; }
  .map canvas { position: absolute; left: 0; top: 0; image-rendering: pixelated; }
  .map .glow { image-rendering: auto; opacity: 0.75; }
  .under { display: flex; justify-content: space-between; align-items: center; margin-top: 0.5rem; gap: 0.5rem; flex-wrap: wrap; }
  .key { display: flex; gap: 0.8rem; color: var(--faint); font-size: 12px; }
  .key i { display: inline-block; width: 9px; height: 9px; margin-right: 4px; }
  .under button { font-size: 12px; }
  select { font: 12px var(--st-code-font, monospace); color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 4px; max-width: 16em; text-overflow: ellipsis; }
`;

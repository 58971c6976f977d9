// One tensor as an image: grey weights, and what this checkpoint moves in colour.

const VIEWS = [["written", "written"], ["missing", "difference"]];

export default function (component) {
  const { data, setTriggerValue } = component;
  const first = component.parentElement.querySelector(".body")?.view ?? "written";
  const { text, controls, body } = frame({ ...component, data: { ...data, text: data.captions[first] } });
  body.view = first;
  chooseTensor(controls, data, setTriggerValue);
  const [map, under] = built(body, () => [
    make(
      "div",
      { class: "map", role: "group", tabindex: 0 },
      ...["", "glow", "changes", "pointed"].map((name) => make("canvas", { class: name || null })),
      ...["followed", "at"].map((name) => make("i", { class: `ring ${name}` })),
    ),
    make("div", { class: "under" }, make("span", { class: "key" }), make("span")),
    make("style", {}, STYLE),
  ]);
  const [keys, views] = under.children;
  body.again = () => pixels(body, map, withExpected(body, data), setTriggerValue);
  const draw = () => {
    choices(views, "What is shown", VIEWS, body.view, (view) => {
      body.view = view;
      draw();
    });
    fitted(body, (width) => {
      paint(map, data, body.view, width);
      body.again();
    });
    write(text, data.captions[body.view], data.terms);
    keys.replaceChildren(key("var(--up)", "up"), key("var(--down)", "down"));
    if (body.view === "written") keys.append(key("var(--grey)", "weight"));
  };
  draw();
  if (body.step !== data.step && !still()) {
    const [weights, glow] = map.children;
    weights.animate({ opacity: [0.5, 1] }, FLASH);
    glow.animate({ opacity: [1, 0.75] }, FLASH);
  }
  body.step = data.step;
}

/** Pixels answer: the pointer or arrow keys choose one, a click or Enter follows its weight. */
function pixels(body, map, data, send) {
  const [followed, at] = map.querySelectorAll(".ring");
  const values = data.values && valuesOf(data);
  const [rows, columns] = data.shape;
  ring(followed, map, data.followed);
  ring(at, map, map.at);
  const choose = (pixel) => {
    map.at = pixel;
    ring(at, map, pixel);
    tell(body, pixel && at, ...(pixel ? say(pixel, data, values) : []));
    const row = pixel && values?.of(pixel).row;
    pointAt(pixel && { pixel, bucket: row?.slice(0, 2), level: row?.[2] });
  };
  const under = (event) => {
    const box = map.firstChild.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  };
  map.onpointermove = (event) => {
    const pixel = under(event);
    if (String(pixel) !== String(map.at)) choose(pixel);
  };
  map.onpointerleave = map.onblur = () => choose(null);
  map.onfocus = () => map.matches(":focus-visible") && choose(map.at ?? data.followed ?? [0, 0]);
  const follow = (pixel) => {
    if (!pixel || writtenAt(pixel, data) === GAP) return;
    send("pixel", pixel);
    expect(body, { followed: pixel });
  };
  map.onclick = (event) => follow(under(event));
  map.onkeydown = (event) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    const [row, column] = map.at ?? data.followed ?? [0, 0];
    if (by) choose([Math.min(Math.max(row + by[0], 0), rows - 1), Math.min(Math.max(column + by[1], 0), columns - 1)]);
    else if (event.key === "Enter" || event.key === " ") follow([row, column]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  onPointing(body, ({ pixel, bucket, levels }) => {
    if (!map.at) ring(at, map, pixel);
    light(map, data, values && !pixel ? values.membersOf(bucket, levels) : null, values);
  });
}

/** A frame around a pixel; none without one. */
function ring(element, map, pixel) {
  set(element, { hidden: !pixel });
  if (!pixel) return;
  const wide = Math.max(map.scale, 6);
  const [top, left] = pixel.map((i) => (i + 0.5) * map.scale - wide / 2 - 2);
  set(element, { style: `left: ${left}px; top: ${top}px; width: ${wide}px; height: ${wide}px` });
}

/** Show the pixels with these codes in the colour of their change: everything else is veiled. */
function light(map, data, codes, values) {
  const canvas = map.querySelector(".pointed");
  const [rows, columns] = data.shape;
  set(canvas, { hidden: !codes });
  if (!codes) return;
  const shown = new ImageData(columns, rows);
  const veil = [...colour(map, "--paper"), 205];
  const members = ["--up", "--down"].map((name) => [...colour(map, name), 255]);
  for (let i = 0; i < rows * columns; i++) shown.data.set(codes.has(values.codes[i]) ? members[values.sign(i)] : veil, 4 * i);
  put(canvas, shown);
}

/** The values behind the pixels, see `weights_picture._values`. */
function valuesOf(data) {
  const { u, track, codes, buckets } = data.values;
  const [us, tracks] = [u, track].map((text) => new Float32Array(unpacked(text).buffer));
  const own = codes ? new Uint16Array(unpacked(codes).buffer) : new Uint16Array(us.length);
  const index = ([row, column]) => row * data.shape[1] + column;
  return {
    codes: own,
    of: (pixel) => ({ u: us[index(pixel)], track: tracks[index(pixel)], row: buckets[own[index(pixel)] - 1] }),
    sign: (i) => buckets[own[i] - 1][1],
    membersOf: (bucket, levels) => {
      const isOne = levels ? ([, , level]) => levels[0] <= level && level <= levels[1] : ([e, s]) => e === bucket[0] && s === bucket[1];
      return bucket || levels ? new Set(buckets.flatMap((row, i) => (isOne(row) ? [i + 1] : []))) : null;
    },
  };
}

/** What is written at a pixel; GAP between two tiles. */
const writtenAt = ([row, column], { maps, shape }) => levels(maps.written, shape[0] * shape[1])[row * shape[1] + column];

/** What a pixel says of its weight. */
function say(pixel, data, values) {
  const written = writtenAt(pixel, data);
  if (written === GAP) return ["between two tiles"];
  const what = written ? `written: ${written > 0 ? "up" : "down"}` : "not written";
  if (!values) return [what, data.without_values ?? "its values: pause"];
  const { u, track, row } = values.of(pixel);
  const n = (value) => significant(value, 4).replace("-", "−");
  const before = track < 0 ? `(${n(track)})` : n(track);
  const rows = [data.carries ? `δ = u − ũ = ${n(u)} − ${before} = ${n(u - track)}` : `δ ${n(u - track)} since the last checkpoint`];
  if (!row) return [...rows, data.values.codes ? "no change" : "stored exactly"];
  const [exponent, sign, level] = row;
  const bucket = data.values.uniform && level ? "" : `bucket ${bucketText(exponent, sign)} → `;
  return [...rows, `${bucket}level ${level ? n(level) : `0: ${data.left_out}`}`];
}

const FLASH = { duration: 500, easing: "ease-out" };
const key = (colour, text) => make("span", {}, make("i", { style: `background: ${colour}` }), text);

function chooseTensor(controls, data, send) {
  let select = controls.querySelector("select");
  if (data.tensors.length < 2) return select?.remove();
  if (!select) controls.append((select = make("select", { "aria-label": "Tensor" })));
  // The options stay as they are: the list may be open.
  each(select, data.tensors, (name) => make("option", { value: name }, name), () => {}, (name) => name);
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

/** Draw the maps as wide as there is room. */
function paint(map, data, view, room) {
  const [rows, columns] = data.shape;
  const [paper, ink, up, down] = ["--paper", "--ink", "--up", "--down"].map((name) => colour(map, name));
  const written = view === "written";
  const share = (level) => Math.abs(level) / LARGEST;
  const grey = (level) => [...paper.map((from, c) => from + (ink[c] - from) * 0.55 * share(level)), level === GAP ? 0 : 255];
  const change = (level) => (level && level !== GAP ? [...(level > 0 ? up : down), 255 * (written ? 1 : 0.15 + 0.85 * share(level))] : [0, 0, 0, 0]);
  const image = (name, colourOf) => {
    const found = new ImageData(columns, rows);
    const colours = Array.from({ length: LARGEST - GAP + 1 }, (_, i) => colourOf(i + GAP));
    levels(data.maps[name], rows * columns).forEach((level, i) => found.data.set(colours[level - GAP], 4 * i));
    return found;
  };
  const [weights, glow, changes] = map.children;
  put(weights, written ? image("restored", grey) : new ImageData(columns, rows));
  put(changes, image(view, change));
  const scale = Math.min(room / columns, data.height / rows);
  const coarse = (n) => Math.ceil((n * scale) / BLUR);
  set(glow, { width: coarse(columns), height: coarse(rows) });
  const light = glow.getContext("2d");
  light.clearRect(0, 0, glow.width, glow.height);
  if (written) light.drawImage(changes, 0, 0, glow.width, glow.height);
  const [wide, high] = [columns, rows].map((n) => Math.floor(n * scale));
  for (const canvas of map.querySelectorAll("canvas")) set(canvas, { style: `width: ${wide}px; height: ${high}px` });
  set(map, { style: `height: ${high}px; max-width: ${wide}px`, "aria-label": `Weights. ${plain(data.text)} Arrow keys read them one by one.` });
  map.scale = wide / columns;
}

// The glow is a coarse copy that the browser smooths. A filter would be computed for every frame.
const BLUR = 6; // pixels of the screen in one of the copy

// Held-out examples: what the live model makes of them, and what the restored one does.

const IMAGES_IN_ROW = 5;

export default function (component) {
  const { data } = component;
  const { controls, body } = frame(component);
  const [scores] = built(controls, () => [make("span", { class: "scores" })]);
  each(
    scores,
    data.scores,
    () => make("span", {}, make("b"), make("span")),
    (span, { text, name }) => {
      write(span.children[0], text);
      span.children[1].textContent = ` ${name}`;
    },
    ({ name }) => name,
  );
  const [row] = built(body, () => [make("div", { class: "row" }), make("style", {}, STYLE)]);
  const { rows } = data;
  set(row, { style: `grid-template-columns: ${rows.length ? "max-content " : ""}repeat(${data.side ? IMAGES_IN_ROW : data.examples.length}, 1fr)` });
  const ink = colour(body, "--ink");
  // Where there are no images, the first column says what the rows are.
  const labels = rows.length ? [{ name: rows[0], live: rows[1], restored: rows[2], title: "", label: true }] : [];
  each(
    row,
    [...labels, ...data.examples],
    (example) =>
      make(
        "div",
        { class: `example ${example.label ? "label" : ""} ${data.letters ? "letter" : ""}` },
        example.pixels ? make("canvas", { role: "img" }) : make("span", { class: "name" }),
        make("b", { class: "live" }),
        make("b", { class: "restored" }),
      ),
    (cell, example) => {
      const [picture, live, restored] = cell.children;
      if (example.pixels) paint(picture, example, data.side, ink);
      else picture.textContent = example.name;
      live.textContent = example.live;
      restored.textContent = example.restored;
      set(live, { class: `live ${example.live_wrong ? "wrong" : ""}` });
      set(restored, { class: `restored ${example.restored_wrong ? "wrong" : ""} ${example.differ ? "differ" : ""}` });
      set(cell, { title: example.title });
    },
  );
}

function paint(canvas, example, side, ink) {
  set(canvas, { "aria-label": example.title });
  const drawn = example.pixels.slice(0, 64) + ink;
  if (canvas.drawn === drawn) return;
  canvas.drawn = drawn;
  const image = new ImageData(side, side);
  unpacked(example.pixels).forEach((value, i) => image.data.set([...ink, value], 4 * i));
  put(canvas, image);
}

const STYLE = `
  .scores { display: flex; gap: 0.8rem; }
  .row { display: grid; gap: 4px; text-align: center; margin-top: 0.4rem; }
  .example { display: grid; justify-items: center; gap: 0; line-height: 1.3; }
  .example canvas { width: 100%; max-width: 46px; image-rendering: pixelated; }
  .label { justify-items: start; margin-right: 0.4rem; }
  .example.label b { font-size: 12px; font-weight: 400; line-height: 20px; color: var(--faint); }
  .example .name { font-size: 11px; color: var(--faint); white-space: pre; }
  .example b { font-size: 15px; font-variant-numeric: tabular-nums; }
  .restored { color: color-mix(in srgb, var(--good) 80%, var(--ink)); }
  .restored.differ { color: color-mix(in srgb, var(--orange) 85%, var(--ink)); text-decoration: underline dotted; }
  .wrong { text-decoration: line-through; }
  .letter b { font-weight: 400; }
  .letter .wrong { text-decoration: none; opacity: 0.6; }
  .letter b:not(.wrong) { font-weight: 700; }
`;

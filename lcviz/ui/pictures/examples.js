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

// Sizes without loss, and the weights by the gap to the next value of their type: how many a step of
// Adam changes. The learning rate can be dragged.

const HIGH = 92; // pixels, of the longest bar
const TOP = 26;
const DECADE = 10; // presses of a key for a tenfold rate

export default function (component) {
  const { text, body, figure } = frame(component);
  const { data } = component;
  const [sizes, svg] = built(body, () => [make("div", { class: "sizes" }), layers("bars", "rings", "axis", "line"), make("p", { class: "about" }, "Pale: all weights. Solid: would change in one step of Adam. Ring: changed between the files, in all steps. Axis: gap to the next value."), make("style", {}, STYLE)]);
  body.again = () => {
    const now = body.rate ? said({ ...data, rate: body.rate }) : data;
    write(text, now.text, now.terms);
    announce(figure, `${now.title}. ${now.text}`);
    fitted(body, (width) => drawGaps(svg, body, now, width));
  };
  each(
    sizes,
    data.sizes,
    () => make("div", {}, make("span"), make("i"), make("b")),
    (row, { name, share, text }) => {
      const [label, bar, told] = row.children;
      label.textContent = name;
      set(bar, { style: `--share: ${share}` });
      told.textContent = text;
    },
    ({ name }) => name,
  );
  body.again();
}

function drawGaps(svg, body, { bars, rate }, width) {
  const [low, high] = [Math.min(bars[0].gap, -24), Math.max(bars.at(-1).gap, -6)];
  const column = (width - 8) / (high - low + 1);
  const x = (exponent) => 4 + (exponent - low + 0.5) * column;
  const floor = TOP + HIGH;
  set(svg, { viewBox: `0 0 ${width} ${floor + 18}`, height: floor + 18 });
  const most = Math.max(...bars.map(({ count }) => count));
  const [columns, rings, axis, line] = svg.children;
  each(
    columns,
    bars,
    () => make("g", {}, make("rect", { fill: "var(--kept)", opacity: 0.25 }), make("rect", { fill: "var(--kept)" })),
    (group, { gap, count, share }) => {
      const tall = (HIGH * count) / most;
      const place = { x: x(gap) - 0.42 * column, width: 0.84 * column };
      set(group.children[0], { ...place, y: floor - tall, height: tall });
      set(group.children[1], { ...place, y: floor - share * tall, height: share * tall });
    },
    ({ gap }) => gap,
  );
  answering(body, columns, bars, {
    say: ({ gap, count, share, own }) => [`${pluralText(count, "weight")}, ${shortText(2 ** gap)} from the next value`, `${percentText(own)} changed; ${percentText(share)} in a step at ${shortText(rate)}`],
    use: () => {},
    point: () => {},
  });
  each(
    rings,
    bars.filter(({ count }) => count > most / 50),
    () => make("circle", { r: 4, fill: "none", stroke: "var(--accent)", "stroke-width": 2, "pointer-events": "none" }),
    (ring, { gap, count, own }) => set(ring, { cx: x(gap), cy: floor - (own * HIGH * count) / most }),
  );
  const every = Math.ceil(36 / column);
  each(
    axis,
    Array.from({ length: high - low + 1 }, (_, i) => low + i).filter((exponent) => (exponent - low) % every === 0),
    () => make("text", { class: "faint", "text-anchor": "middle" }),
    (label, exponent) => {
      label.textContent = power(exponent);
      set(label, { x: x(exponent), y: floor + 14 });
    },
  );
  const [path, handle, label] = built(line, () => [
    make("path", { fill: "none", stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": "4 3" }),
    make("circle", { class: "handle", r: 7, fill: "var(--ink)", tabindex: 0, role: "slider", "aria-label": "Learning rate", style: "cursor: ew-resize" }),
    make("text", { class: "slots" }),
  ]);
  const at = x(Math.log2(rate));
  set(path, { d: `M${at} 10V${floor}` });
  const range = { "aria-valuemin": low, "aria-valuemax": high, "aria-valuenow": Math.log2(rate).toFixed(2) };
  set(handle, { cx: at, cy: 10, "aria-valuetext": shortText(rate), ...range });
  const right = at < width * 0.6;
  label.replaceChildren(make("tspan", { class: "drag" }, "drag · "), `learning rate ${shortText(rate)}`);
  set(label, { x: at + (right ? 12 : -12), y: 14, "text-anchor": right ? "start" : "end" });
  const use = (exponent) => {
    body.rate = 2 ** Math.min(Math.max(exponent, low), high);
    body.again();
  };
  const move = ({ clientX }) => {
    const box = svg.getBoundingClientRect();
    use(low - 0.5 + ((clientX - box.left) * (width / box.width) - 4) / column);
  };
  draggable(handle, { begin: () => {}, move, end: () => {}, by: (steps) => use(Math.log2(rate) + (steps * Math.log2(10)) / DECADE) });
}

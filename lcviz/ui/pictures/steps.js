// A delta in equal steps: bars on one line of changes, the dead zone in their middle, and below it
// where buckets of powers of two would be.

const HIGH = 90; // pixels, of the longest bar
const TOP = 30;

export default function (component) {
  const { data, setTriggerValue: send } = component;
  const { controls, body } = frame(component);
  choices(controls, "Bits x", data.options, data.bits, (bits) => send("bits", bits)); // not "x =": the title needs the place
  const [svg] = built(body, () => [layers("bars", "octaves", "words"), make("style", {}, STYLE)]);
  body.again = () => {
    const now = withExpected(body, data);
    fitted(body, (width) => drawAll(svg, body, now, width, send));
  };
  body.again();
}

function drawAll(svg, body, data, width, send) {
  const reach = Math.max(...data.bars.map((bar) => Math.abs(bar.at)), 3);
  const step = width / (2 * reach + 1);
  const x = (at) => width / 2 + at * step;
  const height = TOP + HIGH + 44;
  const floor = TOP + HIGH;
  set(svg, { viewBox: `0 0 ${width} ${height}`, height });
  const long = logHeights(data.largest, HIGH);
  const [bars, octaves, words] = svg.children;
  const all = [...data.bars, { at: 0, count: data.dead }];
  each(
    bars,
    all,
    () => make("g", { style: "cursor: pointer" }, make("rect", { rx: 2 })),
    (group, bar) => {
      const high = long(bar.count);
      const fill = bar.at ? (bar.at < 0 ? "var(--down)" : "var(--up)") : "var(--other)";
      const stroke = bar.at === data.marked ? "var(--accent)" : null;
      const place = { x: x(bar.at - 0.5) + 0.06 * step, width: 0.88 * step, y: floor - high, height: high };
      set(group.firstChild, { ...place, fill, stroke, "stroke-width": stroke && 3 });
    },
    (bar) => bar.at,
  );
  answering(body, bars, all, {
    say: (bar) => tellBar(bar, data),
    use: (bar) => {
      send("bar", bar.at);
      expect(body, { marked: bar.at });
    },
    point: (bar) => pointAt(bar && { levels: levelsOf(bar, data) }),
  });
  onPointing(body, ({ level }) => {
    const at = level === undefined ? null : Math.sign(level) * Math.ceil(Math.round(Math.abs(level) / data.size) / data.each);
    for (const bar of bars.children) set(bar.firstChild, { class: bar.dataset.key === String(at) ? "pointed" : null });
  });
  const sides = data.octaves.flatMap((octave, i) => [1, -1].map((side) => ({ ...octave, side, i })));
  each(
    octaves,
    sides,
    () => make("g", {}, make("rect"), make("text", { class: "faint", "text-anchor": "middle" })),
    (group, { at, text, side, i }) => {
      const [rect, label] = group.children;
      const next = data.octaves[i + 1]?.at ?? reach + 0.5;
      const [from, to] = [x(side * at), x(side * Math.min(next, reach + 0.5))].sort((a, b) => a - b);
      set(rect, { x: from + 0.5, width: Math.max(to - from - 1, 0), y: floor + 5, height: 9, rx: 2, fill: side < 0 ? "var(--down)" : "var(--up)", opacity: 0.3 });
      label.textContent = to - from > 26 ? text : "";
      set(label, { x: (from + to) / 2, y: floor + 27 });
    },
  );
  const said = [
    { at: 0, y: floor - long(data.dead) - 6, text: step > 50 ? "dead zone" : "dead" },
    { at: 0, y: floor + 41, text: "below: the buckets of powers of two in the same place" },
  ];
  each(
    words,
    said,
    () => make("text", { class: "faint", "text-anchor": "middle" }),
    (text, one) => {
      text.textContent = one.text;
      set(text, { x: x(one.at), y: one.y });
    },
  );
}

/** The first and the last number of steps of a bar, both without a sign. */
const stepsOf = (bar, data) => [(Math.abs(bar.at) - 1) * data.each + 1, Math.abs(bar.at) * data.each];

/** The smallest and the largest level of a bar. */
function levelsOf(bar, data) {
  if (!bar.at) return [0, 0];
  const [from, to] = stepsOf(bar, data);
  const ends = [from - 0.5, to + 0.5].map((steps) => Math.sign(bar.at) * steps * data.size);
  return ends.sort((a, b) => a - b);
}

/** What a bar says of itself. */
function tellBar(bar, data) {
  if (!bar.at) return [`dead zone: ${pluralText(bar.count, "value")}`, data.left_out];
  const [from, to] = stepsOf(bar, data);
  const sign = bar.at < 0 ? "−" : "+";
  const steps = from === to ? pluralText(from, "step") : `${from} to ${to} steps`;
  return [`${sign}${steps}: ${pluralText(bar.count, "value")}`, `level ${sign}${significant(from * data.size)}${from === to ? "" : " and more"}`];
}

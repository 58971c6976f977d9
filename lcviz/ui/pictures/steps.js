// A delta in equal steps: bars on one line of changes, the dead zone in their middle, and below it
// where buckets of powers of two would be.

const HIGH = 96; // pixels, of the longest bar
const TOP = 30;

export default function (component) {
  const { data, setTriggerValue } = component;
  const { controls, body } = frame(component);
  choices(controls, "Bits x", data.options, data.bits, (bits) => setTriggerValue("bits", bits), "x =");
  let svg = body.querySelector("svg");
  if (!svg) {
    svg = make("svg", { role: "presentation" }, make("g"), make("g"), make("g"));
    body.append(svg);
  }
  fitted(body, (width) => drawAll(svg, data, width));
}

function drawAll(svg, data, width) {
  const reach = Math.max(...data.bars.map((bar) => Math.abs(bar.at)), 3);
  const step = width / (2 * reach + 1);
  const x = (at) => width / 2 + at * step;
  const height = TOP + HIGH + 44;
  const floor = TOP + HIGH;
  set(svg, { viewBox: `0 0 ${width} ${height}`, height });
  const scale = Math.log10(data.largest + 1) || 1;
  const long = (count) => (count ? Math.max(2, (HIGH * Math.log10(count + 1)) / scale) : 0);
  const [bars, octaves, words] = svg.children;
  const all = [...data.bars, { at: 0, count: data.dead }];
  each(
    bars,
    all,
    (bar) => bar.at,
    () => make("g", {}, make("rect", { rx: 2 }), make("title")),
    (group, bar) => {
      const [rect, title] = group.children;
      const high = long(bar.count);
      const fill = bar.at ? (bar.at < 0 ? "var(--down)" : "var(--up)") : "var(--grey)";
      set(rect, { x: x(bar.at - 0.5) + 0.06 * step, width: 0.88 * step, y: floor - high, height: high, fill });
      const [from, to] = [(Math.abs(bar.at) - 1) * data.each + 1, Math.abs(bar.at) * data.each];
      const sign = bar.at < 0 ? "−" : "+";
      const steps = from === to ? `${sign}${from}` : `${sign}${from} to ${sign}${to}`;
      title.textContent = bar.at ? `${steps} steps: ${grouped(bar.count)} values` : `dead zone: ${grouped(bar.count)} values stay in the next δ`;
    },
  );
  const sides = data.octaves.flatMap((octave, i) => [1, -1].map((side) => ({ ...octave, side, i })));
  each(
    octaves,
    sides,
    (octave) => `${octave.side}:${octave.text}`,
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
    (_, i) => i,
    () => make("text", { class: "faint", "text-anchor": "middle" }),
    (text, one) => {
      text.textContent = one.text;
      set(text, { x: x(one.at), y: one.y });
    },
  );
}

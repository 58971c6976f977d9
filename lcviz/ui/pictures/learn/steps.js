// 7 Beyond the paper: steps of one size beside buckets of powers of two, on one number line.

// Of one number line: its dots, and the room for words above, in one line or two.
const LANE = { high: 62, top: 20, tall: 34 };
const NARROW = 430;

function drawSteps(page, body, controls) {
  const { state, data } = page;
  const [label] = built(controls, () => [make("label", { class: "line" }, "tolerance", range(data.finest, { style: "width: 130px" }), make("b"))]);
  const lane = () => make("g", {}, make("g"), make("g"), make("text", { "font-weight": 700 }), make("text", { class: "faint" }));
  const [svg] = built(body, () => [make("svg", { role: "presentation" }, lane(), lane())]);
  const [slider, tolerance] = label.children;
  slider.oninput = () => page.change({ fine: Number(slider.value) });
  slider.value = state.fine;
  tolerance.textContent = words(page.steps.tolerance, 3);
  set(slider, { "aria-valuetext": tolerance.textContent });
  fitted(body, (wide) => {
    const { numbers, buckets, bits } = page.lesson;
    const { size, codes } = page.steps;
    const deltas = numbers.map((m) => m.delta);
    const [low, high] = [Math.min(0, ...deltas), Math.max(0, ...deltas)];
    const above = wide < NARROW ? LANE.tall : LANE.top;
    const all = 2 * LANE.high + 2 * above + 10;
    const room = (high - low || 1) * 0.06;
    const x = (value) => ((value - low + room) / (high - low + 2 * room)) * wide;
    set(svg, { viewBox: `0 0 ${wide} ${all}`, height: all });
    const bins = buckets.map((b) => {
      const ends = [2 ** b.exponent, 2 ** (b.exponent + 1)].map((end) => (b.sign ? -end : end)).sort((a, c) => a - c);
      return { ends, level: b.kept ? b.middle : null, sign: b.sign };
    });
    const reach = [low - room, high + room].map((end) => Math.round(end / size));
    const bands = [];
    for (let q = reach[0]; q <= reach[1]; q++) bands.push({ ends: [(q - 0.5) * size, (q + 0.5) * size], level: q ? q * size : null, sign: q < 0 ? 1 : 0 });
    const rows = [
      ["Buckets of powers of two", bins, numbers.map((m) => m.written), bits.h],
      ["Equal steps", bands, codes.map((q) => q * size), page.steps.bits],
    ];
    rows.forEach(([title, own, landed, cost], row) => {
      const top = above + row * (LANE.high + above + 6);
      const [places, dots, name, result] = svg.children[row].children;
      name.textContent = title;
      set(name, { x: 2, y: top - 5 - (above - LANE.top) });
      const off = Math.max(...deltas.map((delta, i) => Math.abs(delta - landed[i])));
      result.textContent = `${cost} bits · leaves ${words(left(deltas, landed), 2)} of δ · furthest off: ${words(off, 2)}`;
      set(result, wide < NARROW ? { x: 2, y: top - 5, "text-anchor": "start" } : { x: wide - 2, y: top - 5, "text-anchor": "end" });
      each(
        places,
        own,
        () => make("g", {}, make("rect", { rx: 3 }), make("line"), make("text", { class: "faint", "text-anchor": "middle" })),
        (group, place) => {
          const [rect, level, dead] = group.children;
          const [from, to] = place.ends.map((end) => Math.min(Math.max(x(end), 0), wide));
          const none = row === 1 && place.level === null;
          set(rect, { x: from + 0.75, width: Math.max(to - from - 1.5, 0), y: top, height: LANE.high, fill: none ? "var(--grey)" : hue(place.sign), opacity: place.level === null ? 0.22 : 0.13 });
          const inside = place.level !== null && x(place.level) >= 0 && x(place.level) <= wide;
          const at = inside ? x(place.level) : null;
          set(level, { x1: at ?? 0, x2: at ?? 0, y1: top, y2: top + LANE.high, stroke: hue(place.sign), ...LEVEL_LINE, opacity: at === null ? 0 : 1 });
          dead.textContent = none && to - from > 62 ? "dead zone" : "";
          set(dead, { x: (from + to) / 2, y: top + LANE.high - 5 });
        },
      );
      drawDots(page, dots, [...deltas.keys()], (i) => ({
        x: x(deltas[i]),
        y: top + 14 + (i % 3) * 14,
        fill: landed[i] ? hue(landed[i] < 0) : "var(--dim)",
        stem: { x2: x(landed[i]) - x(deltas[i]), y2: 0, "stroke-width": 1.6 },
      }));
    });
  });
}

/** The norm of what these levels leave, as a share of the norm of all numbers. */
const left = (deltas, landed) => Math.hypot(...deltas.map((delta, i) => delta - landed[i])) / (Math.hypot(...deltas) || 1);

function tellSteps(page) {
  const { steps } = page;
  const { name, delta } = followedOf(page);
  const q = steps.codes[page.state.followed];
  const to = q ? `${words(q)} × ${words(steps.size, 3)} = ${words(q * steps.size, 3)}` : "0, in the dead zone";
  return `${name}: ${words(delta)} becomes ${to}. No number is off by more than ${words(steps.tolerance, 3)}.`;
}

const tableSteps = ({ lesson, steps, names }) => [
  ["name", "δ", "bucket", "off", "steps", "level", "off"],
  ...lesson.numbers.map((m, i) => {
    const level = steps.codes[i] * steps.size;
    return [names[i], words(m.delta), words(m.written), words(Math.abs(m.delta - m.written), 2), words(steps.codes[i]), words(level), words(Math.abs(m.delta - level), 2)];
  }),
];

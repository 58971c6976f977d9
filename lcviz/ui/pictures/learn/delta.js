// 1 δ: the model's values above the track's, an arrow for each difference.

const UPPER = 40;
const LOWER = 108;
const LETTER = 11; // pixels that a letter above a dot takes

function drawDelta(page, body) {
  const { state, names } = page;
  const [svg, bits] = built(body, () => [
    make(
      "svg",
      {},
      make("g", { class: "rails" }, ...[UPPER, LOWER].map((y) => make("line", { y1: y, y2: y, x1: 0, stroke: "var(--line)" }))),
      make("text", { class: "faint", x: 0, y: 14 }, "u, the model now: drag a dot"),
      make("text", { class: "faint", x: 0, y: LOWER + 22 }, "ũ, the track: what a restart would load"),
      make("g", { class: "arrows" }),
      make("g", { class: "dots" }),
    ),
    make("div", { class: "float mono" }),
  ]);
  const [rails, , , arrows, dots] = svg.children;
  fitted(body, (wide) => {
    set(svg, { viewBox: `0 0 ${wide} 132`, height: 132 });
    for (const rail of rails.children) set(rail, { x2: wide });
    const [low, high] = page.range;
    const x = (value) => 14 + ((value - low) / (high - low)) * (wide - 28);
    const { numbers } = page.lesson;
    const every = [...numbers.keys()];
    each(
      arrows,
      every.filter((i) => i !== state.followed).concat(state.followed), // it is on top
      () => make("path", { fill: "none" }),
      (path, i) => {
        const { track, live, delta } = numbers[i];
        const [x1, x2] = [x(track), x(live)];
        const long = Math.hypot(x2 - x1, LOWER - UPPER);
        const [dx, dy] = [(x2 - x1) / long, (UPPER - LOWER) / long];
        const [tx, ty] = [x2 - 9 * dx, UPPER - 9 * dy];
        const head = `M${tx - 7 * dx - 4 * dy} ${ty - 7 * dy + 4 * dx}L${tx} ${ty}L${tx - 7 * dx + 4 * dy} ${ty - 7 * dy - 4 * dx}`;
        const chosen = i === state.followed;
        set(path, {
          d: `M${x1 + 5 * dx} ${LOWER + 5 * dy}L${tx} ${ty}${head}`,
          stroke: delta ? hue(delta < 0) : "var(--grey)",
          "stroke-width": chosen ? 3 : 1.3,
          opacity: chosen ? 1 : 0.65,
        });
      },
      (i) => i,
    );
    const places = spread(numbers.map(({ live }) => x(live)), LETTER);
    each(
      dots,
      every, // in this order always: a dot that is moved in the document loses the pointer
      (i) => makeDot(page, svg, i),
      (group, i) => {
        const { track, live, delta } = numbers[i];
        const chosen = i === state.followed;
        const [under, handle, letter] = group.children;
        set(under, { cx: x(track), cy: LOWER, fill: "var(--grey)" });
        set(handle, {
          cx: x(live),
          cy: UPPER,
          fill: chosen ? "var(--accent)" : "var(--live)",
          stroke: "var(--paper)", // dots that overlap can be told apart
          "stroke-width": 1.5,
          "aria-valuenow": live,
          "aria-valuemin": low,
          "aria-valuemax": high,
          "aria-valuetext": `${words(live)}; δ is ${words(delta)}`,
        });
        set(letter, { x: places[i], y: UPPER - 10, "text-anchor": "middle", "font-weight": chosen ? 700 : 400 });
        letter.textContent = chosen || wide > 330 ? names[i] : "";
      },
    );
  });
  const followed = followedOf(page);
  each(
    bits,
    [[followed.name, "name"], ...["sign", "exponent", "mantissa"].map((part, i) => [followed.bits[i], part, part])],
    () => make("span"),
    (span, [text, kind, title = ""]) => {
      span.textContent = text;
      set(span, { class: kind, title });
    },
  );
}

/** Places on a line moved as little as keeps them so far apart, in the order in which they are. */
function spread(places, apart) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b] || a - b);
  const groups = [];
  for (const i of order) {
    let group = { members: [i], middle: places[i] };
    for (let last = groups.at(-1); last; last = groups.at(-1)) {
      const n = last.members.length + group.members.length;
      if (group.middle - last.middle >= (n / 2) * apart) break;
      const members = [...groups.pop().members, ...group.members];
      group = { members, middle: members.reduce((sum, j) => sum + places[j], 0) / n };
    }
    groups.push(group);
  }
  const found = [...places];
  for (const { members, middle } of groups)
    members.forEach((j, at) => (found[j] = middle + (at - (members.length - 1) / 2) * apart));
  return found;
}

function makeDot(page, svg, i) {
  const handle = make("circle", { r: 7, tabindex: 0, role: "slider", "aria-label": `u of ${page.names[i]}`, style: "cursor: ew-resize" });
  const begin = (handle.onfocus = () => page.follow(i));
  const move = (event) => {
    const box = svg.getBoundingClientRect();
    const [low, high] = page.range;
    const share = (event.clientX - box.left - 14) / (box.width - 28);
    page.move(i, Math.min(Math.max(low + share * (high - low), low), high), false);
  };
  draggable(handle, { begin, move, end: page.tell, by: (steps) => page.move(i, page.lesson.numbers[i].live + steps * page.step, true) });
  return make("g", {}, make("circle", { r: 5 }), handle, make("text", { style: "pointer-events: none" }));
}

function tellDelta(page) {
  const { name, track, live, delta } = followedOf(page);
  return `${name}: δ = u − ũ = ${words(live)} − ${bracketed(track)} = ${words(delta)}, a float32 of 32 bits.`;
}

const tableDelta = ({ lesson, names }) => [
  ["name", "u", "ũ", "δ"],
  ...lesson.numbers.map(({ live, track, delta }, i) => [names[i], words(live), words(track), words(delta)]),
];

// Curves over steps, drawn in place while a training runs.

const LEFT = 44;
const RIGHT = 74; // of names beside the lines' ends, where the data do not say otherwise
const MANY = 4; // values at one step, from which on each has a row of its own
const BOTTOM = 18;
const ROW = 22; // pixels of a row below the curves
const ABOVE = 20; // pixels above the curves, if words of marks stand there

export default function (component) {
  const { data, setTriggerValue } = component;
  const { text, body, controls } = frame(component);
  const [svg] = built(body, () => [layers("grid", "marks", "lines", "names", "hover", "now", "rows")]);
  fitted(body, (width) => {
    svg.drawn = drawAll(svg, data, width, setTriggerValue);
    if (data.play || svg.played) play(svg, data, controls, text);
  });
}

/**
 * Let the lines grow from step 0 on, as long as data.play says, in seconds: once for the same lines,
 * however often they are drawn, and again on a click. It begins slowly, where most of them end.
 */
function play(svg, data, controls, text) {
  const last = Math.max(0, ...data.lines.filter((line) => line.label !== "").map((line) => line.x.at(-1)));
  const moves = Boolean(data.play && last) && !still();
  const show = () => {
    const share = moves ? Math.min((performance.now() - svg.began) / (1000 * data.play), 1) : 1;
    grow(svg, data, share < 1 ? last * share ** 1.5 : null);
    set(text, { style: share < 1 ? "opacity: 0" : null }); // it says how it ends
    cancelAnimationFrame(svg.next);
    if (share < 1 && svg.isConnected) svg.next = requestAnimationFrame(show);
  };
  const begin = () => {
    svg.began = performance.now();
    show();
  };
  each(
    controls,
    moves ? ["See it again"] : [],
    (name) => make("button", { type: "button", style: "border: 1px solid var(--line); border-radius: 0.5rem" }, name),
    (button) => (button.onclick = begin),
  );
  const lines = moves ? JSON.stringify(data.lines) : "";
  const isNew = lines !== svg.played;
  svg.played = lines;
  if (moves && isNew) begin();
  else show();
}

/** Show what there is up to a step: the lines, ends that are reached, and where each one is. null: all. */
function grow(svg, data, step) {
  const { x, y, ends, height } = svg.drawn;
  const [, , lines, names, , now, rows] = svg.children;
  const at = step === null ? null : x(step);
  const reached = ({ line }) => at === null || line.x.at(-1) <= step;
  [...names.children].forEach((name, i) => set(name, { visibility: reached(ends[i]) ? null : "hidden" }));
  const [seen, dots, rule, said] = built(now, () => [
    make("clipPath", { id: `clip-${Math.random()}` }, make("rect", { x: 0, y: 0 })),
    make("g"),
    make("line", { stroke: "var(--ink)", opacity: 0.4 }),
    make("text", { y: 12, style: `${HALO} font-size: 13px; font-weight: 600` }),
  ]);
  set(lines, { "clip-path": at === null ? null : `url(#${seen.id})` });
  set(now, { visibility: at === null ? "hidden" : null });
  set(rows, { visibility: at === null ? null : "hidden" });
  const running = ends.filter((end) => !reached(end) && !end.line.y.includes(null));
  each(
    dots,
    running,
    () => make("circle", { r: 4 }),
    (dot, { line }) => set(dot, { cx: at, cy: y(between(line, step)), fill: `var(--${line.colour})` }),
  );
  if (at === null) return;
  set(seen.firstChild, { width: at, height });
  set(rule, { x1: at, x2: at, y1: 16, y2: height - BOTTOM });
  set(said, { x: at + 6 });
  said.textContent = `${data.unit} ${Math.floor(step)}`;
}

/** The value of a line at a step. */
function between({ x, y }, step) {
  const i = Math.max(x.findLastIndex((own) => own <= step), 0);
  const share = i + 1 < x.length ? (step - x[i]) / (x[i + 1] - x[i]) : 0;
  return share ? y[i] + share * (y[i + 1] - y[i]) : y[i];
}

function drawAll(svg, data, width, send) {
  const { height, log, rows = [] } = data;
  const whole = height + ROW * rows.length;
  const right = Math.min(data.right ?? RIGHT, 0.3 * width);
  set(svg, { viewBox: `0 0 ${width} ${whole}`, height: whole });
  const values = data.lines.flatMap((line) => line.y).filter((y) => y !== null);
  const f = log ? (y) => Math.log10(Math.max(y, 1e-12)) : (y) => y;
  let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
  if (!log && low > 0 && low < 0.4 * high) low = 0;
  // A line that varies less than its labels can show is drawn flat.
  const least = log ? 0 : 0.002 * Math.max(Math.abs(low), Math.abs(high));
  if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
  if (high === low) high = low + 1;
  const [x0, x1] = data.range;
  const x = (step) => LEFT + ((step - x0) / Math.max(x1 - x0, 1)) * (width - LEFT - right);
  const words = [...data.marks, { step: x1, text: groupedNumber(x1), end: true }];
  const said = placedMarks(words, x, width);
  const top = said.some((place) => place?.above) ? ABOVE : 8;
  const y = (value) => top + (1 - (f(value) - f(low)) / (f(high) - f(low))) * (height - BOTTOM - 6 - top);
  const [grid, marks, lines, names, hover, , below] = svg.children;
  const at = ticks(low, high, log);
  const texts = tickTexts(at);
  const rules = at.map((value, i) => ({ value, number: texts[i] }));
  const drawn = data.lines.map((line) => line.x.map((step, i) => (line.y[i] === null ? null : [x(step), y(line.y[i])])));
  const { ends, level } = placed(data, drawn, y, { width, height, right });
  if (data.level) rules.push({ value: data.level.y, text: data.level.text, place: level });
  each(
    grid,
    rules,
    () => make("g", {}, make("line"), make("text", { class: "faint" })),
    (g, { value, number, text, place }) => {
      const [rule, said] = g.children;
      set(rule, { x1: LEFT, x2: width - right, y1: y(value), y2: y(value), stroke: text ? "var(--faint)" : "var(--line)", "stroke-dasharray": text ? "4 3" : null });
      set(said, place ? { x: place.x, y: place.y, "text-anchor": place.anchor } : { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" });
      said.textContent = text ?? number;
    },
  );
  each(
    marks,
    words,
    () => make("g", {}, make("line", { "stroke-dasharray": "3 3" }), make("text", { "text-anchor": "middle" }), make("title")),
    (g, mark, i) => {
      const [rule, text, title] = g.children;
      const stroke = mark.strong ? "var(--bad)" : "var(--other)";
      set(rule, { x1: x(mark.step), x2: x(mark.step), y1: top - 4, y2: height - BOTTOM, stroke, visibility: mark.end ? "hidden" : null });
      set(text, { x: said[i]?.x ?? 0, y: said[i]?.above ? 10 : height - 3, class: mark.end ? "faint" : null });
      text.textContent = said[i] ? mark.text : "";
      title.textContent = said[i] ? "" : mark.text;
    },
  );
  each(
    lines,
    data.lines,
    () => make("path", { fill: "none", "stroke-width": 2, "stroke-linejoin": "round" }),
    (path, line) => {
      const d = line.x.map((step, i) => {
        if (line.y[i] === null) return "";
        const goesOn = i > 0 && line.y[i - 1] !== null;
        const [at, level] = [x(step).toFixed(1), y(line.y[i]).toFixed(1)];
        return `${goesOn && line.stairs ? `H${at}` : ""}${goesOn ? "L" : "M"}${at} ${level}`;
      });
      const dash = { dash: "6 4", dot: "2 3" }[line.dash] ?? null;
      const isPoint = line.x.length < 2;
      set(path, { d: d.join(""), stroke: `var(--${line.colour})`, "stroke-dasharray": dash, "stroke-width": isPoint ? 5 : 2, "stroke-linecap": isPoint ? "round" : null });
    },
  );
  each(
    names,
    ends,
    () => make("g", {}, make("path", { fill: "none" }), make("circle"), make("text")),
    (group, end) => {
      const [lead, dot, text] = group.children;
      const colour = `var(--${end.line.colour})`;
      const far = Math.abs(end.place.y - 4 - end.dot) > 6; // then a line leads from the end to its name
      set(lead, { d: far ? `M${end.at} ${end.dot}L${end.place.x - 2} ${end.place.y - 4}` : null, stroke: colour, opacity: 0.5 });
      set(dot, { cx: end.at, cy: end.dot, r: end.line.ends ? 4 : 0, fill: colour });
      text.textContent = end.line.label ?? end.line.name;
      set(text, { x: end.place.x, y: end.place.y, style: `${HALO} font-weight: 600; fill: color-mix(in srgb, ${colour} 75%, var(--ink))` });
    },
  );
  each(
    below,
    rows,
    () => make("g", {}, make("path", { "stroke-width": 3, opacity: 0.5 }), make("g"), make("text")),
    (g, { each: prices, mean, half, colour, text: words }, i) => {
      const [bar, dots, text] = g.children;
      const at = height + ROW * (i + 0.5) + 4;
      const ends = [Math.max(mean - (half ?? 0), 0), mean + (half ?? 0)].map(x);
      const last = Math.max(ends[1], ...prices.map(([price]) => x(price))) + 10;
      const fits = last + 6.5 * words.length < width;
      set(bar, { d: `M${ends[0]} ${at}H${ends[1]}M${x(mean)} ${at - 6}v12`, stroke: "var(--ink)" });
      each(
        dots,
        prices,
        () => make("circle", { r: 4, "fill-opacity": 0.75 }),
        (dot, [price, capped]) => set(dot, { cx: x(price), cy: at, fill: capped ? "none" : `var(--${colour})`, stroke: `var(--${colour})` }),
      );
      set(text, { x: fits ? last : Math.min(...ends, ...prices.map(([price]) => x(price))) - 10, y: at + 4, "text-anchor": fits ? "start" : "end", style: HALO });
      text.textContent = words;
    },
  );
  point(svg, hover, data, { x, y, width, height, right, x0, x1 }, send);
  return { x, y, ends, height };
}

/** The numbers of an axis, with as many digits as tell them apart: three to five. */
function tickTexts(values) {
  const texts = [3, 4, 5].map((n) => values.map((value) => digits(value, n).replace("-", "−")));
  return texts.find((own) => new Set(own).size === own.length) ?? texts[2];
}

/** A few round numbers from low to high; on a log axis powers of ten and a few multiples of these. */
function ticks(low, high, log) {
  if (!log) return multiples(low, high, roundAbove((high - low) / 4));
  const [first, last] = [low, high].map((value) => Math.floor(Math.log10(Math.max(value, 1e-12))));
  const decades = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  const inside = (factors) => decades.flatMap((ten) => factors.map((by) => by * ten)).filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const all = [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]].map(inside).find((values) => values.length > 2) ?? [low, high];
  return all.filter((_, i) => i % Math.ceil(all.length / 4) === 0);
}

/** The multiples of a step from low to high. */
function multiples(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** The least 1, 2, 2.5 or 5 times a power of ten that is not below a number above 0. */
function roundAbove(number) {
  const ten = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].find((by) => by * ten >= number * 0.999) * ten;
}

/** Places for the words of marks, below or above the curves; null if there is no room. */
function placedMarks(marks, x, width) {
  const taken = [];
  return marks.map((mark) => {
    const half = 3.1 * mark.text.length;
    const at = Math.min(Math.max(x(mark.step), LEFT + half), width - half);
    const free = (above) => !taken.some((other) => other.above === above && Math.abs(other.x - at) < other.half + half + 4);
    const above = [Boolean(mark.above), ...(mark.end ? [] : [!mark.above])].find(free);
    if (above === undefined) return null;
    taken.push({ x: at, half, above });
    return taken.at(-1);
  });
}

/** Where words stand: the names of the lines beside their ends, and what the level is. */
function placed(data, drawn, y, { width, height, right }) {
  const ends = data.lines
    .map((line, i) => ({ line, end: drawn[i].findLast((at) => at) }))
    .filter(({ line, end }) => end && line.label !== "")
    .map(({ line, end }) => ({ line, at: end[0], dot: end[1], y: end[1] }))
    .sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => (end.y = Math.max(end.y, i ? ends[i - 1].y + 13 : 10)));
  ends.toReversed().forEach((end, i, all) => (end.y = Math.min(end.y, i ? all[i - 1].y - 13 : height - BOTTOM - 6)));
  const taken = ends.filter(({ line }) => line.ends).map(({ at, dot }) => ({ left: at - 4, right: at + 4, top: dot - 4, bottom: dot + 4 }));
  for (const end of ends) {
    const x = Math.min(end.at + 7, width - right + 6);
    const places = [0, -13, 13, -26, 26].map((by) => ({ x, y: end.y + 4 + by, anchor: "start" }));
    const inside = places.filter((place, i) => !i || (place.y > 9 && place.y <= height - BOTTOM));
    end.place = freePlace(inside, end.line.label ?? end.line.name, taken, drawn);
  }
  if (!data.level) return { ends };
  const along = [1, 0.75, 0.5, 0.25].flatMap((share) =>
    [-4, 12].map((by) => ({ x: LEFT + share * (width - LEFT - right), y: y(data.level.y) + by, anchor: "end" })),
  );
  return { ends, level: freePlace(along, data.level.text, taken, drawn) };
}

/**
 * The first of some places { x, y, anchor } where a text covers neither a line nor what is taken,
 * else the first of all; from then on that is taken. lines: points [x, y], null in a gap.
 */
function freePlace(places, text, taken, lines) {
  const wide = 6.2 * text.length + 4;
  const boxes = places.map(({ x, y, anchor }) => {
    const left = anchor === "end" ? x - wide : x;
    return { left, right: left + wide, top: y - 9, bottom: y + 2 };
  });
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const crosses = (line, box) =>
    line.some((to, i) => {
      const from = line[i - 1];
      if (!from || !to || to[0] < box.left || from[0] > box.right) return false;
      const [long, high] = [to[0] - from[0], to[1] - from[1]];
      const share = (x) => Math.min(Math.max((x - from[0]) / long, 0), 1);
      const seen = (long ? [share(box.left), share(box.right)] : [0, 1]).map((part) => from[1] + high * part);
      return Math.min(...seen) < box.bottom && Math.max(...seen) > box.top;
    });
  const free = (box) => !taken.some((other) => meet(other, box)) && !lines.some((line) => crosses(line, box));
  const found = Math.max(boxes.findIndex(free), 0);
  taken.push(boxes[found]);
  return places[found];
}

/** A line under the pointer with the values there; a click shows that step. */
function point(svg, hover, data, { x, y, width, height, right, x0, x1 }, send) {
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) * width) / box.width;
    const step = x0 + ((at - LEFT) / (width - LEFT - right)) * (x1 - x0);
    const every = data.lines.flatMap((line) => line.x);
    return every.reduce((best, s) => (Math.abs(s - step) < Math.abs(best - step) ? s : best), every[0]);
  };
  svg.onpointermove = (event) => {
    const step = nearest(event);
    if (step === undefined) return;
    const found = data.lines.map((line) => [line, line.x.indexOf(step)]).filter(([line, i]) => i >= 0 && line.y[i] !== null);
    const said = [`${data.unit} ${step}`, ...found.map(([line, i]) => `${line.name} ${digits(line.y[i])}`)];
    const rows = said.length > MANY ? said : [said.join(" · ")];
    const end = x(step) < width / 2;
    const at = x(step) + (end ? 8 : -8);
    const box = make("text", { y: 12, "text-anchor": end ? "start" : "end", style: "paint-order: stroke; stroke: var(--paper); stroke-width: 4px" });
    box.append(...rows.map((row, i) => make("tspan", { x: at, dy: i ? 14 : 0 }, row)));
    hover.replaceChildren(make("line", { x1: x(step), x2: x(step), y1: 4, y2: height - BOTTOM, stroke: "var(--ink)", opacity: 0.4 }), box);
    for (const [line, i] of found) hover.append(make("circle", { cx: x(step), cy: y(line.y[i]), r: 3.5, fill: `var(--${line.colour})` }));
  };
  svg.onpointerleave = () => hover.replaceChildren();
  svg.onclick = data.clickable ? (event) => send("step", nearest(event)) : null;
  set(svg, { style: data.clickable ? "cursor: pointer" : null });
}

/** n significant digits, one fewer with an exponent. */
const digits = (value, n = 3) => (value && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3) ? value.toExponential(n - 2) : significant(value, n));

// The exponent buckets of a delta: positive ones above, negative ones below, the largest left. Bars
// show how many values each has, or how far the rebuilt delta is off without it. What is kept is
// solid; the cut between kept and postponed can be dragged.

const HALF = 48; // pixels, of the longest bar
const TOP = 24;
const OVERHANG = 3; // pixels by which a label may be wider than its bar
const VIEWS = [["values", "values"], ["error", "error without it"]];

export default function (component) {
  const { text, controls, body } = frame(component);
  const { setTriggerValue: send } = component;
  body.newest = component.data;
  const [svg, under] = built(body, () => [layers("edge", "level", "bars", "axis", "cut"), make("div", { class: "under" }), make("style", {}, STYLE)]);
  body.again = () => {
    // While the cut is dragged the axis stays: a new one would move the cut away from the pointer.
    if (!body.dragging) body.held = body.newest;
    const data = body.held;
    const now = withExpected(body, data);
    if (!body.dragging) body.cut = now.cut;
    const isOld = now.cut !== data.cut && now.view === "values"; // the sentence, until the answer comes
    write(text, isOld ? keptText(now) : data.text, data.terms);
    if (now.options.length) choices(controls, "Bits x", now.options, now.bits, choose, "x =");
    choices(under, "What the bars show", VIEWS, now.view, (view) => {
      send("view", view);
      expect(body, { view });
    });
    fitted(body, (width) => drawAll(svg, body, now, width, send));
  };
  const choose = (bits) => {
    send("bits", bits);
    const { most, cut } = body.held;
    const next = bits === "all" ? most : Math.min(2 ** bits - 1, most);
    expect(body, cut === null || Number.isNaN(next) ? { bits } : { bits, cut: next });
  };
  body.again();
}

function drawAll(svg, body, data, width, send) {
  const n = data.exponents.length || 1;
  const step = Math.min(34, (width - 8) / n);
  const middle = TOP + HALF + 8;
  const height = 2 * middle + 6;
  set(svg, { viewBox: `0 0 ${width} ${height}`, height });
  const long = logHeights(data.largest, HALF);
  const worth = data.view === "error";
  const most = Math.max(...data.buckets.map((bar) => bar.error), 1e-9);
  const far = (error) => (HALF * error) / most;
  const keptOf = (bar) => (body.cut === null ? bar.kept : bar.rank <= body.cut ? bar.kept + bar.rest : 0);
  const [line, level, bars, axis, cut] = svg.children;
  const fits = labelRoom(body, step + OVERHANG);
  each(
    bars,
    data.buckets,
    () => make("g", { style: "cursor: pointer" }, make("rect"), make("rect"), make("text", { "text-anchor": "middle" })),
    (group, bar) => {
      const x = 4 + (data.exponents[0] - bar.exponent) * step;
      const n = bar.kept + bar.rest;
      const kept = keptOf(bar);
      const rest = n - kept;
      const [back, front, label] = group.children;
      const tall = worth ? far(bar.error) : long(n);
      const fill = bar.sign ? "var(--down)" : "var(--up)";
      const at = (h) => ({ y: bar.sign ? middle + 1 : middle - 1 - h, height: h });
      set(back, { x: x + step * 0.08, width: step * 0.84, rx: 2, fill, opacity: 0.36, ...at(rest ? tall : 0) });
      const narrow = rest && kept ? 0.4 : 0.84;
      set(front, { x: x + (step * (1 - narrow)) / 2, width: step * narrow, rx: 2, fill, ...at(kept ? (worth ? tall : long(kept)) : 0) });
      const marked = String(data.marked) === String([bar.exponent, bar.sign]);
      for (const rect of [back, front]) set(rect, { stroke: marked ? "var(--accent)" : null, "stroke-width": marked ? 3 : null });
      const counted = kept ? [groupedNumber(kept), `${(kept / 1000).toFixed(1)}k`] : [];
      // Errors at the dotted line need no number.
      const lost = bar.error > 1.1 * data.rounding ? [percent(bar.error)] : [];
      const place = { x: x + step / 2, y: bar.sign ? middle + tall + 13 : middle - tall - 5 };
      const told = (worth ? lost : counted).find((text) => fits(text, bar.sign, place)) ?? "";
      label.textContent = told || (marked ? (bar.sign ? "▲" : "▼") : "");
      set(label, { ...place, style: HALO });
      set(group, { "data-quantity": "error-without-bucket", "data-value": bar.error, "data-of": name(bar) });
    },
    (bar) => `${bar.exponent}:${bar.sign}`,
  );
  answering(body, bars, data.buckets, {
    say: (bar) => tellBar(bar, data, keptOf(bar)),
    use: (bar) => {
      if (body.moved) return;
      send("bucket", [bar.exponent, bar.sign]);
      expect(body, { marked: [bar.exponent, bar.sign] });
    },
    point: (bar) => pointAt(bar && { bucket: [bar.exponent, bar.sign] }),
  });
  onPointing(body, ({ bucket }) => {
    for (const bar of bars.children) set(bar, { class: bucket && bar.dataset.key === bucket.join(":") ? "pointed" : null });
  });
  each(
    level,
    worth ? [middle - 1 - far(data.rounding), middle + 1 + far(data.rounding)] : [],
    () => make("line", { stroke: "var(--ink)", "stroke-dasharray": "2 3", opacity: 0.6 }),
    (line, y) => set(line, { x1: 4, x2: 4 + n * step, y1: y, y2: y }),
  );
  const every = Math.ceil(30 / step);
  each(
    axis,
    data.exponents.map((exponent, i) => [exponent, i]).filter(([, i]) => i % every === 0),
    () => make("text", { class: "faint", "text-anchor": "middle" }),
    (text, [exponent, i]) => {
      text.textContent = power(exponent);
      set(text, { x: 4 + (i + 0.5) * step, y: height - 2 });
    },
  );
  if (body.cut !== null) drawCut(line, cut, svg, body, data, { width, step, middle, height }, send);
  else for (const part of [line, cut]) part.replaceChildren();
}

function drawCut(line, group, svg, body, data, { width, step, middle, height }, send) {
  const [path] = built(line, () => [make("path", { fill: "none", stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": "4 3" })]);
  const [handle, label] = built(group, () => [
    make("circle", { class: "handle", r: 7, fill: "var(--ink)", tabindex: 0, role: "slider", "aria-label": "Cut between kept and postponed buckets", style: "cursor: ew-resize" }),
    make("text", { class: "slots" }),
  ]);
  const edge = (sign) => {
    const kept = data.buckets.filter((bar) => bar.sign === sign && bar.rank <= body.cut);
    return 4 + step * kept.reduce((far, bar) => Math.max(far, data.exponents[0] - bar.exponent + 1), 0);
  };
  const [above, below] = [edge(0), edge(1)];
  set(path, { d: `M${above} 10V${middle}H${below}V${height - 14}` });
  set(handle, {
    cx: above,
    cy: 10,
    "aria-valuemin": 0,
    "aria-valuemax": data.most,
    "aria-valuenow": body.cut,
    "aria-valuetext": slots(body.cut, data),
  });
  const right = above < width * 0.6;
  label.replaceChildren(make("tspan", { class: "drag" }, "drag · "), slots(body.cut, data));
  set(label, { x: above + (right ? 12 : -12), y: 14, "text-anchor": right ? "start" : "end" });

  const order = [...data.buckets].sort((a, b) => a.rank - b.rank);
  const moveTo = (cut, done) => {
    cut = Math.min(Math.max(cut, 0), data.most);
    if (cut !== body.cut || done) {
      body.cut = cut;
      expect(body, { cut });
    }
    clearTimeout(body.later);
    const tell = () => send("cut", body.cut);
    if (done) tell();
    else body.later = setTimeout(tell, 50);
  };
  const begin = () => {
    body.dragging = true;
    body.moved = false;
  };
  const move = (event) => {
    body.moved = true;
    const box = svg.getBoundingClientRect();
    const column = ((event.clientX - box.left) * (width / box.width) - 4) / step;
    const place = (bar, i) => {
      const at = data.exponents[0] - bar.exponent;
      const second = i > 0 && order[i - 1].exponent === bar.exponent;
      return at + (second ? 0.85 : 0.4);
    };
    moveTo(order.filter((bar, i) => place(bar, i) < column).length, false);
  };
  const end = () => {
    body.dragging = false;
    if (body.moved) moveTo(body.cut, true);
    setTimeout(() => (body.moved = false), 0);
  };
  draggable(handle, { begin, move, end, by: (steps) => moveTo(body.cut + steps, false) });
}

/** What the cut of the page keeps, in words. It counts no values: with another cut δ changes, too. */
function keptText({ cut, most }) {
  return cut >= most ? `All ${most} buckets are kept.` : `${pluralText(cut, "slot")} for ${most} buckets, largest first.`;
}

const name = (bar) => bucketText(bar.exponent, bar.sign);
const percent = (share) => `${significant(100 * share, 2)} %`;

/** What a bar says of itself. */
function tellBar(bar, data, kept) {
  const n = bar.kept + bar.rest;
  const what = kept && kept < n ? `${groupedNumber(kept)} kept` : kept ? "kept" : data.left_out;
  const rows = [`${name(bar)}: ${pluralText(n, "value")}, ${what}`, `without it ${percent(bar.error)} of δ is lost (${percent(data.rounding)} with all)`];
  if (bar.loss !== null && data.loss !== null)
    rows.push(`loss without it ${significant(bar.loss, 4)} (${significant(data.loss, 4)} with all)`);
  return rows;
}

const slots = (cut, data) => (cut >= data.most ? "all" : cut === 1 ? "1 slot" : `${cut} slots`);

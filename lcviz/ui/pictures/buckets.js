// The exponent buckets of a delta: positive ones above, negative ones below, the largest left. Bars
// show how many values each has, or how far the rebuilt delta is off without it. What is kept is
// solid; the cut between kept and postponed can be dragged.

const HALF = 48; // pixels, of the longest bar
const TOP = 24;
const OVERHANG = 3; // pixels by which a label may be wider than its bar
const VIEWS = [["values", "values"], ["error", "error without it"]];

export default function (component) {
  const { figure, controls, body } = frame(component);
  const { setTriggerValue: send } = component;
  body.newest = component.data;
  let svg = body.querySelector("svg");
  if (!svg) {
    svg = make("svg", { role: "presentation" }, make("g", { class: "edge" }), make("g", { class: "level" }), make("g", { class: "bars" }), make("g", { class: "axis" }), make("g", { class: "cut" }));
    body.append(svg, make("div", { class: "under" }), make("style", {}, STYLE));
  }
  const under = body.querySelector(".under");
  body.again = () => {
    // While the cut is dragged its axis stays: that of an answer would slide it away from the pointer.
    if (!body.dragging) body.held = body.newest;
    const data = body.held;
    const now = withExpected(body, data);
    if (!body.dragging) body.cut = now.cut;
    const isOld = now.cut !== data.cut && now.view === "values"; // the sentence, until the answer comes
    write(figure.querySelector("p.text"), isOld ? keptText(now) : data.text, data.terms);
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
  const scale = Math.log10(data.largest + 1) || 1;
  const long = (count) => (count ? Math.max(2, (HALF * Math.log10(count + 1)) / scale) : 0);
  const worth = data.view === "error";
  const most = Math.max(...data.buckets.map((bar) => bar.error), 1e-9);
  const far = (error) => (HALF * error) / most;
  const isKept = (bar) => (body.cut === null ? null : bar.rank <= body.cut);
  const [line, level, bars, axis, cut] = svg.children; // later ones are drawn over earlier ones
  const fits = labelRoom(body, step + OVERHANG);
  each(
    bars,
    data.buckets,
    (bar) => `${bar.exponent}:${bar.sign}`,
    () => make("g", { style: "cursor: pointer" }, make("rect"), make("rect"), make("text", { "text-anchor": "middle" })),
    (group, bar) => {
      const x = 4 + (data.exponents[0] - bar.exponent) * step;
      const all = isKept(bar);
      const kept = all === null ? bar.kept : all ? bar.kept + bar.rest : 0;
      const rest = bar.kept + bar.rest - kept;
      const [back, front, label] = group.children;
      const tall = worth ? far(bar.error) : long(bar.kept + bar.rest);
      const fill = bar.sign ? "var(--blue)" : "var(--orange)";
      const at = (h) => ({ y: bar.sign ? middle + 1 : middle - 1 - h, height: h });
      set(back, { x: x + step * 0.08, width: step * 0.84, rx: 2, fill, opacity: 0.36, ...at(rest ? tall : 0) });
      const narrow = rest && kept ? 0.4 : 0.84;
      set(front, { x: x + (step * (1 - narrow)) / 2, width: step * narrow, rx: 2, fill, ...at(kept ? (worth ? tall : long(kept)) : 0) });
      const marked = String(data.marked) === String([bar.exponent, bar.sign]);
      for (const rect of [back, front]) set(rect, { stroke: marked ? "var(--table)" : null, "stroke-width": marked ? 3 : null });
      const counted = kept ? [grouped(kept), `${(kept / 1000).toFixed(1)}k`] : [];
      // Errors at the dotted line need no number.
      const lost = bar.error > 1.1 * data.rounding ? [percent(bar.error)] : [];
      const place = { x: x + step / 2, y: bar.sign ? middle + tall + 13 : middle - tall - 5 };
      const told = (worth ? lost : counted).find((text) => fits(text, bar.sign, place)) ?? "";
      const words = told || (marked ? (bar.sign ? "▲" : "▼") : "");
      label.textContent = words;
      set(label, { ...place, style: HALO });
      set(group, { "data-quantity": "error-without-bucket", "data-value": bar.error, "data-of": name(bar) });
    },
  );
  answering(body, bars, data.buckets, {
    say: (bar) => tellBar(bar, data, isKept(bar)),
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
  const rounded = worth ? [middle - 1 - far(data.rounding), middle + 1 + far(data.rounding)] : [];
  each(
    level,
    rounded,
    (_, i) => i,
    () => make("line", { stroke: "var(--ink)", "stroke-dasharray": "2 3", opacity: 0.6 }),
    (line, y) => set(line, { x1: 4, x2: 4 + n * step, y1: y, y2: y }),
  );
  const every = Math.ceil(30 / step);
  each(
    axis,
    data.exponents.map((exponent, i) => [exponent, i]).filter(([, i]) => i % every === 0),
    ([exponent]) => exponent,
    () => make("text", { class: "faint", "text-anchor": "middle" }),
    (text, [exponent, i]) => {
      text.textContent = power(exponent);
      set(text, { x: 4 + (i + 0.5) * step, y: height - 2 });
    },
  );
  drawCut(line, cut, svg, body, data, { width, step, middle, height }, send);
}

function drawCut(line, group, svg, body, data, room, send) {
  const { width, step, middle, height } = room;
  if (body.cut === null) {
    for (const part of [line, group]) part.replaceChildren();
    return;
  }
  if (!group.children.length) {
    line.append(make("path", { fill: "none", stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": "4 3" }));
    group.append(
      make("circle", { class: "handle", r: 7, fill: "var(--ink)", tabindex: 0, role: "slider", "aria-label": "Cut between kept and postponed buckets", style: "cursor: ew-resize" }),
      make("text", { class: "slots" }),
    );
  }
  const [path] = line.children;
  const [handle, label] = group.children;
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
  handle.onkeydown = (event) => {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    moveTo(body.cut + by, false);
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
  draggable(handle, { begin, move, end });
}

/** What the cut of the page keeps, in words. */
function keptText({ buckets, cut, most }) {
  const n = buckets.reduce((sum, bar) => sum + (bar.rank <= cut ? bar.kept + bar.rest : 0), 0);
  if (cut >= most) return `All ${most} buckets are kept: ${grouped(n)} values change.`;
  return `${plural(cut, "slot")} for ${most} buckets, largest first: ${plural(n, "value")} ${n === 1 ? "is" : "are"} kept.`;
}

const name = (bar) => `${bar.sign ? "−" : "+"}${power(bar.exponent)}`;
const percent = (share) => `${Number((100 * share).toPrecision(2))} %`;

/** What a bar says of itself. */
function tellBar(bar, data, all) {
  const n = bar.kept + bar.rest;
  const kept = all === null ? bar.kept : all ? n : 0;
  const what = kept && kept < n ? `${grouped(kept)} kept` : kept ? "kept" : `${data.left_out}`;
  const rows = [`${name(bar)}: ${plural(n, "value")}, ${what}`];
  rows.push(`without it ${percent(bar.error)} of δ is lost (${percent(data.rounding)} with all)`);
  if (bar.loss !== null && data.loss !== null)
    rows.push(`loss without it ${Number(bar.loss.toPrecision(4))} (${Number(data.loss.toPrecision(4))} with all)`);
  return rows;
}

const STYLE = `
  .under { display: flex; justify-content: flex-end; font-size: 12px; }
  g.pointed rect { stroke: var(--ink); stroke-width: 2; }
`;

const slots = (cut, data) => (cut >= data.most ? "all" : cut === 1 ? "1 slot" : `${cut} slots`);

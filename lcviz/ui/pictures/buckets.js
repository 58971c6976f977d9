// The exponent buckets of a delta: positive ones above, negative ones below, the largest left.
// What is kept is solid; the cut between kept and postponed can be dragged.

const HALF = 68; // pixels, of the longest bar
const TOP = 24;

export default function (component) {
  const { data, setTriggerValue: send } = component;
  const { controls, body } = frame(component);
  let svg = body.querySelector("svg");
  if (!svg) {
    svg = make("svg", { role: "presentation" }, make("g", { class: "edge" }), make("g", { class: "bars" }), make("g", { class: "axis" }), make("g", { class: "cut" }));
    body.append(svg);
  }
  body.again = () => {
    const now = withExpected(body, data);
    if (!body.dragging) body.cut = now.cut;
    if (now.options.length) choices(controls, "Bits x", now.options, now.bits, choose, "x =");
    fitted(body, (width) => drawAll(svg, body, now, width, send));
  };
  const choose = (bits) => {
    send("bits", bits);
    const cut = bits === "all" ? data.most : Math.min(2 ** bits - 1, data.most);
    expect(body, data.cut === null || Number.isNaN(cut) ? { bits } : { bits, cut });
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
  const isKept = (bar) => (body.cut === null ? null : bar.rank <= body.cut);
  const [line, bars, axis, cut] = svg.children; // later ones are drawn over earlier ones
  each(
    bars,
    data.buckets,
    (bar) => `${bar.exponent}:${bar.sign}`,
    () => make("g", {}, make("rect"), make("rect"), make("text", { "text-anchor": "middle" }), make("title")),
    (group, bar) => {
      const x = 4 + (data.exponents[0] - bar.exponent) * step;
      const all = isKept(bar);
      const kept = all === null ? bar.kept : all ? bar.kept + bar.rest : 0;
      const rest = bar.kept + bar.rest - kept;
      const [back, front, label, title] = group.children;
      const tall = long(bar.kept + bar.rest);
      const fill = bar.sign ? "var(--down)" : "var(--up)";
      const at = (h) => ({ y: bar.sign ? middle + 1 : middle - 1 - h, height: h });
      set(back, { x: x + step * 0.08, width: step * 0.84, rx: 2, fill, opacity: 0.28, ...at(rest ? tall : 0) });
      const narrow = rest && kept ? 0.4 : 0.84;
      set(front, { x: x + (step * (1 - narrow)) / 2, width: step * narrow, rx: 2, fill, ...at(long(kept)) });
      const key = [bar.exponent, bar.sign];
      const marked = String(data.marked) === String(key);
      for (const rect of [back, front]) set(rect, { stroke: marked ? "var(--table)" : null, "stroke-width": marked ? 3 : null });
      const room = (text) => step > 5.3 * text.length;
      const told = [grouped(kept), `${(kept / 1000).toFixed(1)}k`].find(room) ?? "";
      const words = kept && told ? told : marked ? (bar.sign ? "▲" : "▼") : "";
      label.textContent = words;
      set(label, { x: x + step / 2, y: bar.sign ? middle + tall + 13 : middle - tall - 5, style: HALO });
      title.textContent =
        `${bar.sign ? "−" : "+"}${power(bar.exponent)}: ${plural(bar.kept + bar.rest, "value")}, ` +
        (rest && kept ? `${grouped(kept)} kept` : kept ? "kept" : "postponed");
      group.onclick = () => {
        if (body.moved) return;
        send("mark", key);
        expect(body, { marked: marked ? null : key });
      };
      set(group, { style: "cursor: pointer" });
    },
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
  label.textContent = `drag · ${slots(body.cut, data)}`;
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

const slots = (cut, data) => (cut >= data.most ? "all" : cut === 1 ? "1 slot" : `${cut} slots`);

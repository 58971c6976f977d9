// 2 E: buckets in powers of two; the members of a bucket become its level.

const BIN = { top: 20, high: 76 };

function drawLevels(page, body, controls) {
  const { state, lesson, names } = page;
  if (!body.children.length) {
    const bits = make("span", { class: "float mono", role: "group", "aria-label": "Exponent bits" });
    const line = make("div", { class: "line" }, bits, make("span", { class: "about" }));
    body.append(make("svg", { role: "presentation" }, make("g"), make("g")), line);
    controls.append(make("button", { type: "button", class: "act" }));
  }
  const [button] = controls.children;
  button.textContent = state.slid ? "Back to δ" : "Slide to the middle";
  button.onclick = () => page.change({ slid: !state.slid });
  const [svg, line] = body.children;
  const [bits, hint] = line.children;
  const [bins, dots] = svg.children;
  const { top, high } = BIN;
  fitted(body, (wide) => {
    const { buckets, numbers } = page.lesson;
    set(svg, { viewBox: `0 0 ${wide} 116`, height: 116 });
    const step = Math.min(78, wide / Math.max(buckets.length, 1));
    const left = (wide - step * buckets.length) / 2;
    // From the end of a bin nearer to zero, at the bottom, to the other end.
    const share = (bucket, value) => Math.abs(value) / 2 ** bucket.exponent - 1;
    const y = (bucket, value) => top + high * (1 - share(bucket, value));
    each(
      bins,
      buckets,
      (bucket) => `${bucket.sign}:${bucket.exponent}`,
      () => make("g", {}, make("rect"), make("line"), make("text"), make("text")),
      (group, bucket, i) => {
        const [rect, line, level, name] = group.children;
        const x = left + i * step;
        set(rect, { x: x + 2, y: top, width: step - 4, height: high, rx: 4, fill: hue(bucket.sign), opacity: 0.13 });
        const at = y(bucket, bucket.middle);
        set(line, { x1: x + 2, x2: x + step - 2, y1: at, y2: at, stroke: hue(bucket.sign), "stroke-width": 1.6, "stroke-dasharray": "4 3" });
        for (const text of [level, name]) set(text, { x: x + step / 2, "text-anchor": "middle" });
        level.textContent = step > 30 ? words(bucket.middle, 3) : "";
        name.textContent = step > 26 || i % 2 === 0 ? signed(bucket.exponent, bucket.sign) : "";
        set(level, { y: 14, "font-weight": 700 });
        set(name, { y: top + high + 15, class: "faint" });
      },
    );
    each(
      dots,
      numbers.map((_, i) => i).filter((i) => numbers[i].bucket !== null),
      (i) => i,
      (i) => {
        const dot = make("g", { class: "dot" }, make("line"), make("circle"), make("text"));
        dot.onclick = () => page.follow(i);
        return dot;
      },
      (group, i) => {
        const bucket = buckets[numbers[i].bucket];
        const seat = (bucket.members.indexOf(i) + 0.5) / bucket.members.length - 0.5;
        const x = left + (numbers[i].bucket + 0.5) * step + seat * (step - 8);
        const home = y(bucket, numbers[i].delta);
        const middle = y(bucket, bucket.middle);
        const at = state.slid ? middle : home;
        const chosen = i === state.followed;
        const [stem, circle, letter] = group.children;
        set(group, { style: `transform: translate(${x}px, ${at}px)` });
        set(stem, { y1: 0, y2: (state.slid ? home : middle) - at, stroke: "var(--faint)" });
        set(circle, { r: chosen ? 9 : 7.5, fill: chosen ? "var(--good)" : hue(bucket.sign), stroke: "var(--paper)" });
        set(letter, { y: 3.5, "text-anchor": "middle", class: "on" });
        letter.textContent = names[i];
      },
    );
  });
  const [, field] = lesson.numbers[state.followed].bits;
  each(
    bits,
    [...`${names[state.followed]}${field}`],
    (_, i) => i,
    (_, i) => make(i > 4 ? "button" : "span", i > 4 ? { type: "button", class: "bit", "aria-label": `Flip the exponent bit that counts ${2 ** (8 - i)}` } : {}),
    (bit, text, i) => {
      bit.textContent = text;
      if (i > 4) bit.onclick = () => flip(page, i - 1);
      else set(bit, { class: i ? "exponent" : "name" });
    },
  );
  const value = parseInt(field, 2);
  hint.textContent = `${value} − 127 = ${words(value - 127)}: flip a bit`;
}

/** Flip a bit of the followed δ's exponent: u moves. */
function flip(page, at) {
  const i = page.state.followed;
  const { bits, track } = page.lesson.numbers[i];
  const field = [...bits[1]];
  field[at] = field[at] === "1" ? "0" : "1";
  page.move(i, track + valueOf([bits[0], field.join(""), bits[2]]), true, true);
}

function tellLevels({ state, lesson, names }) {
  const m = lesson.numbers[state.followed];
  const name = names[state.followed];
  if (m.bucket === null) return `${name} has not changed: it is 0 and has no bucket.`;
  const { exponent, sign } = lesson.buckets[m.bucket];
  return (
    `${name}: ${words(m.delta)} becomes ${words(m.middle)}, off by ${words(Math.abs(m.middle - m.delta), 2)}. ` +
    `Half of bucket ${signed(exponent, sign)} is ${words(2 ** Math.max(exponent, -126) / 2, 3)}.`
  );
}

const tableLevels = ({ lesson, names }) => [
  ["bucket", "members", "smallest", "largest", "middle"],
  ...lesson.buckets.map((b) => [signed(b.exponent, b.sign), b.members.map((i) => names[i]).join(" "), words(b.min), words(b.max), words(b.middle)]),
];

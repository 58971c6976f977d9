// 2 E: buckets in powers of two; the members of a bucket become its level.

const BIN = { top: 20, high: 76 };

function drawLevels(page, body, controls) {
  const { state } = page;
  const [button] = built(controls, () => [act()]);
  const [svg, line] = built(body, () => [
    layers("bins", "dots"),
    make("div", { class: "line" }, make("span", { class: "float mono", role: "group", "aria-label": "Exponent bits" }), make("span", { class: "about" })),
  ]);
  button.textContent = state.slid ? "Back to δ" : "Slide to the middle";
  button.onclick = () => page.change({ slid: !state.slid });
  const [bits, hint] = line.children;
  const [bins, dots] = svg.children;
  const { top, high } = BIN;
  fitted(body, (wide) => {
    const { buckets, numbers } = page.lesson;
    set(svg, { viewBox: `0 0 ${wide} 116`, height: 116 });
    const step = Math.min(78, wide / Math.max(buckets.length, 1));
    const left = (wide - step * buckets.length) / 2;
    // From the end of a bin nearer to zero, at the bottom, to the other end.
    const y = (bucket, value) => top + high * (2 - Math.abs(value) / 2 ** bucket.exponent);
    each(
      bins,
      buckets,
      () => make("g", {}, make("rect"), make("line"), make("text"), make("text")),
      (group, bucket, i) => {
        const [rect, line, level, name] = group.children;
        const x = left + i * step;
        set(rect, { x: x + 2, y: top, width: step - 4, height: high, rx: 4, fill: hue(bucket.sign), opacity: 0.13 });
        const at = y(bucket, bucket.middle);
        set(line, { x1: x + 2, x2: x + step - 2, y1: at, y2: at, stroke: hue(bucket.sign), ...LEVEL_LINE });
        for (const text of [level, name]) set(text, { x: x + step / 2, "text-anchor": "middle" });
        level.textContent = step > 30 ? words(bucket.middle, 3) : "";
        name.textContent = step > 26 || i % 2 === 0 ? signed(bucket.exponent, bucket.sign) : "";
        set(level, { y: 14, "font-weight": 700 });
        set(name, { y: top + high + 15, class: "faint" });
      },
    );
    const inBuckets = [...numbers.keys()].filter((i) => numbers[i].bucket !== null);
    drawDots(page, dots, inBuckets, (i) => {
      const { bucket: place, delta } = numbers[i];
      const bucket = buckets[place];
      const seat = (bucket.members.indexOf(i) + 0.5) / bucket.members.length - 0.5;
      const ends = [y(bucket, delta), y(bucket, bucket.middle)];
      const [at, other] = state.slid ? ends.reverse() : ends;
      return { x: left + (place + 0.5) * step + seat * (step - 8), y: at, fill: hue(bucket.sign), stem: { y1: 0, y2: other - at } };
    });
  });
  const { name, bits: [, field] } = followedOf(page);
  each(
    bits,
    [...`${name}${field}`],
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
  const { bits: [sign, exponent, mantissa], track } = followedOf(page);
  const flipped = [...exponent].map((bit, i) => (i === at ? 1 - bit : bit)).join("");
  page.move(page.state.followed, track + valueOf([sign, flipped, mantissa]), true, true);
}

function tellLevels(page) {
  const { name, bucket, delta, middle } = followedOf(page);
  if (bucket === null) return `${name} has not changed: it is 0 and has no bucket.`;
  const { exponent, sign } = page.lesson.buckets[bucket];
  return (
    `${name}: ${words(delta)} becomes ${words(middle)}, off by ${words(Math.abs(middle - delta), 2)}. ` +
    `Half of bucket ${signed(exponent, sign)} is ${words(2 ** Math.max(exponent, -126) / 2, 3)}.`
  );
}

const tableLevels = ({ lesson, names }) => [
  ["bucket", "members", "smallest", "largest", "middle"],
  ...lesson.buckets.map((b) => [signed(b.exponent, b.sign), membersOf(b, names), ...[b.min, b.max, b.middle].map((value) => words(value))]),
];

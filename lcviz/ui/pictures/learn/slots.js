// 3 P: the largest buckets get the slots; the others wait in a tray.

function drawSlots(page, body, controls) {
  const { state, data, names } = page;
  const options = data.options.map((x) => [x ?? "all", x === null ? "all" : String(x)]);
  choices(controls, "Bits x", options, state.x ?? "all", (x) => page.change({ x: x === "all" ? null : x }), "x =");
  if (!body.children.length)
    body.append(make("div", { class: "slots" }, make("div"), make("div")), make("div", { class: "waiting" }, make("span"), make("i")));
  const [slots, waiting] = body.children;
  const [places, chips] = slots.children;
  fitted(body, (wide) => {
    const { buckets } = page.lesson;
    const room = state.x === null ? buckets.length : 2 ** state.x - 1;
    const shown = Math.min(room, 7 + (state.x === null ? 99 : 0));
    const over = buckets.length - Math.min(room, buckets.length);
    const gap = 5;
    const size = Math.min(112, (wide + gap) / Math.max(shown, over, 3) - gap);
    const style = (row, i) => `left: ${i * (size + gap)}px; top: ${row ? 76 : 18}px; width: ${size}px`;
    const all = [...Array(shown).keys()].map((i) => ["slot", i]);
    each(
      places,
      [["head", 0], ...all, ["tray", 0]],
      ([kind, i]) => kind + i,
      () => make("div"),
      (div, [kind, i]) => {
        set(div, { class: kind, style: kind === "slot" ? style(0, i) : `top: ${kind === "tray" ? 59 : 0}px` });
        const count = state.x === null ? "every bucket has a slot" : `x = ${state.x}: 2${power(state.x).slice(1)} − 1 = ${plural(room, "slot")}, and 0`;
        div.textContent = kind === "slot" ? "" : kind === "head" ? count : over ? "Next time" : "No bucket waits";
      },
    );
    each(
      chips,
      buckets,
      (bucket) => `${bucket.sign}:${bucket.exponent}`,
      () => make("div", {}, make("b"), make("span")),
      (chip, bucket, i) => {
        const [level, members] = chip.children;
        level.textContent = size > 34 ? words(bucket.middle, 3) : "";
        members.textContent = bucket.members.map((at) => names[at]).join(" ");
        const place = bucket.kept ? style(0, i) : style(1, i - room);
        const fill = bucket.kept ? `color-mix(in srgb, ${hue(bucket.sign)} 88%, #000)` : "var(--tray)";
        const own = bucket.members.includes(state.followed);
        set(chip, { class: `chip${bucket.kept ? " kept" : ""}${own ? " own" : ""}`, style: `${place}; background: ${fill}` });
      },
    );
  });
  const share = leftOver(page.lesson);
  waiting.children[0].textContent = `not restored yet: ${words(100 * share, 3)} % of all change${page.lesson.buckets.every((bucket) => bucket.kept) ? ", rounding" : ""}`;
  set(waiting.children[1], { style: `width: ${100 * share}%` });
}

/** Part of the sum of |δ| that the next track lacks: what is dropped, and what levels are off. */
function leftOver(lesson) {
  const sum = (of) => lesson.numbers.reduce((total, m) => total + Math.abs(of(m)), 0);
  return sum((m) => m.live - m.rebuilt) / (sum((m) => m.delta) || 1);
}

function tellSlots({ state, lesson, names }) {
  const m = lesson.numbers[state.followed];
  const name = names[state.followed];
  if (m.bucket === null) return `${name} has not changed: 0 is written.`;
  return m.code
    ? `${name} has a slot: ${words(m.written)} is written.`
    : `${name} has no slot: 0 is written, and its ${words(m.delta)} stays in the next δ.`;
}

const tableSlots = ({ lesson, names }) => [
  ["bucket", "members", "level", "kept"],
  ...lesson.buckets.map((b) => [signed(b.exponent, b.sign), b.members.map((i) => names[i]).join(" "), words(b.middle), b.kept ? "yes" : "next time"]),
];

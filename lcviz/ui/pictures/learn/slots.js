// 3 P: the largest buckets get the slots; the others wait in a tray.

function drawSlots(page, body, controls) {
  const { state, data, names } = page;
  const options = data.options.map((x) => [x ?? "all", x === null ? "all" : String(x)]);
  choices(controls, "Bits x", options, state.x ?? "all", (x) => page.change({ x: x === "all" ? null : x }), "x =");
  const [slots, waiting] = built(body, () => [
    make("div", { class: "slots" }, make("div"), make("div")),
    make("div", { class: "waiting" }, make("span"), make("i")),
  ]);
  const [places, chips] = slots.children;
  fitted(body, (wide) => {
    const { buckets } = page.lesson;
    const room = state.x === null ? buckets.length : 2 ** state.x - 1;
    const shown = state.x === null ? room : Math.min(room, 7);
    const over = Math.max(buckets.length - room, 0);
    const gap = 5;
    const size = Math.min(112, (wide + gap) / Math.max(shown, over, 3) - gap);
    const style = (row, i) => `left: ${i * (size + gap)}px; top: ${row ? 76 : 18}px; width: ${size}px`;
    const count = state.x === null ? "every bucket has a slot" : `x = ${state.x}: ${power(state.x)} − 1 = ${pluralText(room, "slot")}, and 0`;
    const all = Array.from({ length: shown }, (_, i) => ["slot", style(0, i), ""]);
    each(
      places,
      [["head", "top: 0px", count], ["tray", "top: 59px", over ? "Next time" : "No bucket waits"], ...all],
      () => make("div"),
      (div, [kind, place, text]) => {
        set(div, { class: kind, style: place });
        div.textContent = text;
      },
    );
    each(
      chips,
      buckets,
      () => make("div", {}, make("b"), make("span")),
      (chip, bucket, i) => {
        const [level, members] = chip.children;
        level.textContent = size > 34 ? words(bucket.middle, 3) : "";
        members.textContent = membersOf(bucket, names);
        const place = bucket.kept ? style(0, i) : style(1, i - room);
        const fill = bucket.kept ? `color-mix(in srgb, ${hue(bucket.sign)} 88%, #000)` : "var(--tray)";
        const own = bucket.members.includes(state.followed);
        set(chip, { class: `chip${bucket.kept ? " kept" : ""}${own ? " own" : ""}`, style: `${place}; background: ${fill}` });
      },
      (bucket) => `${bucket.sign}:${bucket.exponent}`,
    );
  });
  const share = leftOver(page.lesson);
  const [text, bar] = waiting.children;
  text.textContent = `not restored yet: ${words(100 * share, 3)} % of all change${page.lesson.buckets.every((bucket) => bucket.kept) ? ", rounding" : ""}`;
  set(bar, { style: `width: ${100 * share}%` });
}

/** Part of the sum of |δ| that the next track lacks: what is dropped, and what levels are off. */
function leftOver(lesson) {
  const sum = (of) => lesson.numbers.reduce((total, m) => total + Math.abs(of(m)), 0);
  return sum((m) => m.live - m.rebuilt) / (sum((m) => m.delta) || 1);
}

function tellSlots(page) {
  const { name, bucket, code, written, delta } = followedOf(page);
  if (bucket === null) return `${name} has not changed: 0 is written.`;
  if (code) return `${name} has a slot: ${words(written)} is written.`;
  return `${name} has no slot: 0 is written, and its ${words(delta)} stays in the next δ.`;
}

const tableSlots = ({ lesson, names }) => [
  ["bucket", "members", "level", "kept"],
  ...lesson.buckets.map((b) => [signed(b.exponent, b.sign), membersOf(b, names), words(b.middle), b.kept ? "yes" : "next time"]),
];

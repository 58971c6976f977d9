// The race back after a crash, as lcviz.ui.race and lcviz.live.race_picture.

const RACE_HEIGHT = 230; // CSS pixels
const RACE_SECONDS = 6; // that it takes on the screen
const RACE_FLAT = 2; // from this multiple of the loss before the crash on, the axis is logarithmic
const LEVEL = 0.05; // iterations: results closer than this are called level
const RACE_STYLES = /** @type {Record<string, [string, string]>} */ ({ full: ["good", "solid"], SCAR: ["up", "dash"], TOPN: ["table", "dot"], LC: ["down", "solid"] });

/** @param {Raced} raced */
function racePicture(raced) {
  const { failAt, since, before, trend, outcomes } = raced;
  const ends = outcomes.map(({ onTrend, rework, capped }) => {
    const whole = onTrend.map((loss, r) => [r, loss]).filter(([r]) => r < rework || r === 0 || capped);
    const level = Math.min(onTrend[rework] ?? trend[0], trend[0]); // it may lie below at once
    return !capped && rework > 0 ? [...whole, [rework, level]] : whole;
  });
  const last = Math.max(...ends.map((points) => points[points.length - 1][0]));
  const until = Math.min(Math.max(Math.ceil(1.15 * last), 5), trend.length - 1);
  /** @param {string} name @param {string} colour @param {string} dash @param {number[][]} points @param {object} more */
  const line = (name, colour, dash, points, more = {}) => ({ name, label: "", colour, dash, x: points.map(([r]) => plotted(r, 4)), y: points.map(([, loss]) => plotted(loss)), ...more });
  const lines = [
    line("before", "grey", "solid", before.map((loss, i) => [i + 1 - before.length, loss])),
    line("no crash", "grey", "dot", trend.slice(0, until + 1).map((loss, r) => [r, loss]), { label: "no crash" }),
    ...outcomes.map(({ name, rework, capped }, i) => line(name, ...RACE_STYLES[name], ends[i], { label: `${name}${capped ? ` > ${since + CAP}` : ` ${amountText(rework)}`}`, ends: true })),
  ];
  const losses = lines.flatMap(({ y }) => y).filter((loss) => loss !== null);
  return pictureData("curves", "Race back", "smoothed loss, by iterations after the crash · SCAR saves the blocks that changed most, TOPN single weights", verdict(raced) + estimateText(raced), {
    lines,
    marks: [{ step: 0, text: `crash at ${failAt}`, strong: true }],
    level: { y: plotted(trend[0]), text: `${shortLossText(trend[0])} before` },
    range: [1 - before.length, until],
    log: Math.min(...losses) > 0 && Math.max(...losses) > RACE_FLAT * trend[0],
    unit: "iteration",
    height: RACE_HEIGHT,
    right: Math.round(10 + 6.4 * Math.max(...lines.map(({ label }) => label.length))),
    clickable: false,
    play: RACE_SECONDS,
  });
}

/** What was estimated, if the race came out otherwise. @param {Raced} raced */
function estimateText({ outcomes, estimate = null }) {
  const { rework } = outcomes[outcomes.length - 1];
  if (estimate === null || amountText(estimate) === amountText(rework)) return "";
  return ` The estimate was about ${amountText(estimate)}: it reads the loss curve, the race trains again.`;
}

/** The winner at equal bytes and its lead, then full's result and bytes. @param {Raced} raced */
function verdict({ outcomes }) {
  const [full, ...rest] = outcomes;
  const equal = rest.sort((a, b) => Number(a.capped) - Number(b.capped) || a.rework - b.rework);
  const [first, ...followers] = equal;
  const lc = /** @type {Outcome} */ (equal.find(({ name }) => name === "LC"));
  const size = `At ${nbytesText(lc.nbytes)} per checkpoint on average`;
  const back = (/** @type {Outcome} */ { rework, capped }) => capped ? `not back within ${iterationsText(rework)}` : rework ? `back after ${iterationsText(rework)}` : "back at once";
  /** @param {Outcome} o */
  const needs = (o) => {
    if (o.capped) return `after more than ${amountText(o.rework)}`;
    return `after ${amountText(o.rework)}${first.rework < LEVEL ? "" : `, ${significant(o.rework / first.rework)} × as many`}`;
  };
  let text = "";
  if (first.capped) {
    text = `${size} nobody wins: none of ${enumerated(equal.map(({ name }) => name))} was back within ${iterationsText(first.rework)}`;
  } else {
    const level = followers.filter(({ capped, rework }) => !capped && rework - first.rework < LEVEL);
    const behind = followers.slice(level.length);
    text = `${size} ${enumerated([first, ...level].map(({ name }) => name))} ${level.length ? "are level" : "wins"}: ${back(first)}`;
    if (behind.length) text += `; ${behind.map((o) => `${o.name} ${needs(o)}`).join(", ")}`;
  }
  const times = full.nbytes / lc.nbytes;
  return `${text}. Full, with ${times >= 1.5 ? `${groupedNumber(times)} × the bytes` : `${nbytesText(full.nbytes)} each`}, is ${back(full)}.`;
}

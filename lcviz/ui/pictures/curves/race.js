// The race back after a crash: the loss of each method until it is as low as before the crash.

const RACE_HEIGHT = 230; // CSS pixels
const RACE_SECONDS = 6; // that it takes on the screen
const RACE_FLAT = 2; // from this multiple of the loss before the crash on, the axis is logarithmic
const LEVEL = 0.05; // iterations: results closer than this are called level
const LETTER = 6.4; // CSS pixels, of a name beside the end of its line
const METHODS = " · SCAR saves the blocks that changed most, TOPN single weights";
/** @type {Record<string, [string, string]>} method -> colour and dash */
const RACE_LOOKS = {
  full: ["other", "solid"],
  SCAR: ["other", "dash"],
  TOPN: ["other", "dot"],
  "LC Huffman": ["restored", "dash"],
  "LC run-length": ["restored", "solid"],
  LC: ["restored", "solid"],
};

/**
 * What a crash costs with one method.
 * @typedef {object} WayBack
 * @property {string} name
 * @property {number} nbytes of a checkpoint, on average
 * @property {number} rework the price in iterations; if capped, those that were trained
 * @property {boolean} capped whether the loss was never back
 * @property {[number, number | null][]} points iterations after the crash, and the loss
 */

/**
 * What crashes cost with one method, over several seeds.
 * @typedef {object} Price
 * @property {string} name
 * @property {number} nbytes of a checkpoint, on average
 * @property {number} mean iterations
 * @property {number | null} half of the 95 % interval of the mean; null if it is not known
 * @property {[number, boolean][]} each price of a seed, and whether the loss was never back
 */

/**
 * @typedef {object} RaceFacts
 * @property {number} at the iteration of the crash
 * @property {WayBack[]} ways of the methods so far; the last may be under way
 * @property {(number | null)[]} before losses up to the crash; empty if they are not known
 * @property {(number | null)[]} calm losses from the crash on, had there been none; drawn to the end
 * @property {number} cap iterations after which a method is given up
 * @property {boolean} smooth whether losses are smoothed, as the price is counted
 * @property {boolean} over whether no method is under way; then the race is played
 * @property {boolean} bytes whether the methods are compared at the same bytes
 * @property {number | null} estimate of LC's price, before the race; null if there was none
 * @property {Price[]} [prices] of each method over all seeds, drawn below
 */

SAYS.race = (/** @type {RaceFacts} */ facts) => {
  const { at, ways, before, calm, cap, smooth, over, prices = [] } = facts;
  const start = 1 - before.length;
  const lines = [
    { ...lineOf("before", "live", before.map((loss, i) => [start + i, loss])), label: "" },
    { ...lineOf("no crash", "live", calm.map((loss, i) => [i, loss]), "dot"), label: "no crash" },
    ...ways.map((way, i) => {
      const ends = over || i < ways.length - 1;
      const price = way.capped ? ` > ${cap}` : ` ${amountText(endOf(way))}`;
      const [colour, dash] = RACE_LOOKS[way.name];
      return { ...lineOf(way.name, colour, way.points, dash), label: `${way.name}${ends ? price : ""}`, ends };
    }),
  ];
  const losses = lines.flatMap(({ y }) => y).filter((loss) => loss !== null);
  const level = /** @type {number} */ (calm[0]);
  return {
    title: "Race back",
    about: `${smooth ? "smoothed loss" : "loss as measured"}, by iterations after the crash${facts.bytes ? METHODS : ""}`,
    text: raceSentence(facts),
    lines,
    rows: prices.map((price) => ({ ...price, colour: RACE_LOOKS[price.name][0], text: `${price.name}, ${nbytesText(price.nbytes)}: ${priceText(price)}` })),
    marks: [{ step: 0, text: `crash at ${at}`, strong: true }],
    level: { y: level, text: `${shortLossText(level)} before` },
    range: [before.length ? start : 0, Math.max(calm.length - 1, ...ways.map(endOf), ...prices.flatMap(({ mean, half }) => mean + (half ?? 0)), ...prices.flatMap(({ each }) => each.map(([price]) => price)))],
    log: Math.min(...losses) > 0 && Math.max(...losses) > RACE_FLAT * level, // else all lie on the level
    unit: "iteration",
    height: RACE_HEIGHT,
    right: Math.round(10 + LETTER * Math.max(...lines.map(({ label }) => label.length))),
    clickable: false,
    ...(over ? { play: RACE_SECONDS } : {}),
  };
};

/** Where the line of a method that is back ends. @param {WayBack} way */
const endOf = ({ points }) => points[points.length - 1][0];

/** @param {Price} price */
function priceText({ mean, half, each }) {
  return `${each.some(([, capped]) => capped) ? "≥ " : ""}${mean.toFixed(2)}${half === null ? "" : ` ± ${half.toFixed(2)}`}`;
}

/** @param {Price[]} prices @param {boolean} smooth */
function pricesText(prices, smooth) {
  if (!prices.length) return "";
  const n = prices[0].each.length;
  return ` Below: the price of ${n > 1 ? `each of ${n} seeds; bars are 95 % intervals of the means` : "one seed, so far without an interval"}${smooth ? "" : ", by the smoothed loss"}.`;
}

/** @param {RaceFacts} facts */
function raceSentence({ ways, calm, cap, smooth, over, bytes, estimate, prices = [] }) {
  if (bytes) return over ? raceVerdict(ways) + estimateText(ways, estimate) : "Each line ends where the loss is what it was before the crash.";
  const back = ways.filter(({ capped }) => !capped).sort((a, b) => endOf(a) - endOf(b));
  const parts = back.map((way) => `${way.name} ${endOf(way) ? `after ${amountText(endOf(way))}` : "at once"}`);
  const never = ways.filter(({ capped }) => capped).map(({ name }) => name);
  if (never.length) parts.push(`${enumerated(never)} not within ${pluralText(cap, "iteration")}`);
  const end = never.length ? "it is back, or given up" : "it is back";
  return `${smooth ? "Smoothed loss" : "Loss"} before the crash: ${lossText(calm[0], 4)}. Back: ${parts.join(", ")}. Each line ends where ${end}.${pricesText(prices, smooth)}`;
}

/** What was estimated, if the race came out otherwise. @param {WayBack[]} ways @param {number | null} estimate */
function estimateText(ways, estimate) {
  if (estimate === null || roughly(estimate) === roughly(ways[ways.length - 1].rework)) return "";
  return ` The estimate was about ${amountText(roughly(estimate))}: it reads the loss curve, the race trains again.`;
}

/** The winner at equal bytes and its lead, then full's result and bytes. @param {WayBack[]} ways */
function raceVerdict(ways) {
  const full = /** @type {WayBack} */ (ways.find(({ name }) => name === "full"));
  const equal = ways.filter((way) => way !== full).sort((a, b) => Number(a.capped) - Number(b.capped) || a.rework - b.rework);
  const [first, ...followers] = equal;
  const lc = equal.find(({ name }) => name === "LC") ?? first;
  const size = `At ${nbytesText(lc.nbytes)} per checkpoint on average`;
  let text = "";
  if (first.capped) {
    text = `${size} nobody wins: none of ${enumerated(equal.map(({ name }) => name))} was back within ${iterationsText(first.rework)}`;
  } else {
    const level = followers.filter(({ capped, rework }) => !capped && rework - first.rework < LEVEL);
    const behind = followers.slice(level.length);
    text = `${size} ${enumerated([first, ...level].map(({ name }) => name))} ${level.length ? "are level" : "wins"}: ${backText(first)}`;
    if (behind.length) text += `; ${behind.map((way) => `${way.name} ${neededText(way, first)}`).join(", ")}`;
  }
  const times = full.nbytes / lc.nbytes;
  const more = times >= 1.5 ? `${groupedNumber(times)} × the bytes` : `${nbytesText(full.nbytes)} each`;
  return `${text}. Full, with ${more}, is ${backText(full)}.`;
}

/** @param {WayBack} way */
function backText({ rework, capped }) {
  if (capped) return `not back within ${iterationsText(rework)}`;
  return rework ? `back after ${iterationsText(rework)}` : "back at once";
}

/** How many iterations more a method needed. @param {WayBack} way @param {WayBack} first */
function neededText({ rework, capped }, first) {
  if (capped) return `after more than ${amountText(rework)}`;
  if (first.rework < LEVEL) return `after ${amountText(rework)}`; // a multiple of almost nothing has no meaning
  return `after ${amountText(rework)}, ${significant(rework / first.rework)} × as many`;
}

// The buckets of a change, what each is worth, and the cut, as lcviz.live.buckets_picture; and the bars
// of equal steps, as lcviz.live.steps_picture.

const BUTTONS = [["1", "1"], ["2", "2"], ["3", "3"], ["4", "4"], ["all", "all"], ["steps", "equal steps"]];
const MOST_BARS = 40; // on each side of zero

/** @param {View} view */
function bucketsPicture(view) {
  const { checkpoint, dissected, setting, worth } = view;
  const { all, nKept } = dissected;
  const { rounding, without } = errorsWithout(dissected);
  const bars = all.buckets.map(({ exponent, sign, count }, i) => ({
    exponent,
    sign,
    kept: i < nKept ? count : 0,
    rest: i < nKept ? 0 : count,
    rank: i + 1,
    error: plotted(without[i], 5),
    loss: worth ? plotted(worth.without[i]) : null,
  }));
  const exponents = bars.length ? bars.map((bar) => bar.exponent) : [0];
  const [first, last] = [Math.max(...exponents), Math.min(...exponents)];
  const followedBucket = all.buckets[all.codes[view.followed] - 1];
  return pictureData("buckets", "Buckets", "", view.byWorth && bars.length ? worthText(view, rounding, without) : keptSentence(view), {
    buckets: bars,
    exponents: Array.from({ length: first - last + 1 }, (_, i) => first - i),
    largest: Math.max(1, ...all.buckets.map(({ count }) => count)),
    cut: bars.length ? nKept : null,
    most: all.buckets.length,
    options: BUTTONS,
    bits: bitsThatKeep(nKept, all.buckets.length),
    marked: followedBucket ? [followedBucket.exponent, followedBucket.sign] : null,
    left_out: leftOut(setting.carries),
    view: view.byWorth ? "error" : "values",
    rounding: plotted(rounding, 5),
    loss: worth ? plotted(worth.loss) : null,
  }, 2);
}

/** The button of the fewest bits that keep so many of n buckets; "" if none does. @param {number} nKept @param {number} n */
function bitsThatKeep(nKept, n) {
  if (nKept === n) return "all";
  const x = [1, 2, 3, 4, 5, 6, 7, 8].find((bits) => Math.min(promotedBy(bits), n) === nKept);
  return x === undefined ? "" : String(x);
}

/** @param {View} view */
function keptSentence({ dissected, checkpoint, setting }) {
  const { all, nKept } = dissected;
  const [n, changed] = [all.buckets.length, checkpoint.quantized.counts.slice(1).reduce((sum, count) => sum + count, 0)];
  if (!n) return "Nothing has changed in this step.";
  const countText = quantity("values-kept", changed, groupedNumber(changed));
  if (nKept === n) return `All ${n} buckets are kept: ${countText} values change.`;
  const x = bitsThatKeep(nKept, n);
  let slots = pluralText(nKept, "slot");
  if (x && promotedBy(Number(x)) === nKept) slots = `2${RAISED.get(x)} − 1 = ${slots}`;
  return `${slots} for ${n} buckets, largest first: ${countText} of ${groupedNumber(N)} values are kept. Paler ones ${leftOut(setting.carries)}. Log scale.`;
}

/** What the removal of the most important bucket costs. @param {View} view @param {number} rounding @param {number[]} without */
function worthText({ dissected, worth, playing }, rounding, without) {
  const most = without.indexOf(Math.max(...without));
  const { exponent, sign } = dissected.all.buckets[most];
  let text = `With all buckets ${percentText(rounding)} of δ is lost, by rounding. Without ${bucketText(exponent, sign)} alone, ${percentText(without[most])}`;
  if (worth) text += `: the loss is ${shortLossText(worth.without[most])} instead of ${shortLossText(worth.loss)}`;
  return `${text}.${playing ? " Pause to measure the loss without each bucket." : ""}`;
}

/** The bar of a code in equal steps: 0 is the dead zone. @param {number} code @param {number} each steps a bar */
const barOf = (code, each) => Math.sign(stepsOfCode(code)) * Math.ceil(Math.abs(stepsOfCode(code)) / each);

/** Steps that share a bar. @param {Quantized} quantized */
const stepsOfBar = (quantized) => Math.max(Math.ceil(Math.floor(quantized.counts.length / 2) / MOST_BARS), 1);

/** @param {View} view */
function stepsPicture({ checkpoint, setting, followed, raised }) {
  const { quantized } = checkpoint;
  const { counts, size, codes } = quantized;
  const each = stepsOfBar(quantized);
  /** @type {Map<number, number>} */
  const bars = new Map();
  counts.forEach((count, code) => {
    const at = barOf(code, each);
    if (code && count) bars.set(at, (bars.get(at) ?? 0) + count);
  });
  const changed = N - counts[0];
  const reach = Math.abs(stepsOfCode(counts.length - 1));
  const stays = leftOut(setting.carries);
  const text = size
    ? `Steps of ${significant(size)}: ${groupedNumber(changed)} of ${groupedNumber(N)} values move by up to ${pluralText(reach, "step")}. Smaller changes lie in the dead zone and ${stays}.`
    : `All changes lie in the dead zone: they ${stays}.`;
  const raisedText = raised === null ? "" : ` The size is raised to ${percentText(raised)}: with less, a checkpoint may hold no change.`;
  return pictureData("steps", "Equal steps", "", text + raisedText, {
    size,
    each,
    bars: [...bars].sort(([a], [b]) => a - b).map(([at, count]) => ({ at, count })),
    dead: counts[0],
    marked: checkpoint.delta[followed] ? barOf(codes[followed], each) : null,
    left_out: stays,
    largest: Math.max(counts[0], ...bars.values()),
    octaves: octavesBeside(size, each, Math.max(1, ...[...bars.keys()].map(Math.abs))),
    options: BUTTONS,
    bits: "steps",
  }, 2);
}

/** Where the paper's buckets would begin, in bars from zero. @param {number} size of a step @param {number} each @param {number} reach the last bar */
function octavesBeside(size, each, reach) {
  if (!size) return [];
  const [first, last] = [Math.floor(Math.log2(size)), Math.floor(Math.log2(size * (reach * each + 0.5)))];
  return Array.from({ length: last - first + 1 }, (_, i) => ({ at: 2 ** (first + i) / size / each + 0.5 - 0.5 / each, text: powerText(first + i) }));
}

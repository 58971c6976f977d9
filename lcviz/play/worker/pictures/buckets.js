// The facts of the buckets of a change, and of equal steps.

const MOST_BARS = 40; // on each side of zero

/** @param {Shown} shown @returns {BucketsFacts & { picture: string }} */
function bucketsFacts({ checkpoint, dissected, nKept, setting, worth, followed, byWorth, playing }) {
  const { all } = dissected;
  const n = checkpoint.quantized.codes.length;
  const { rounding, without } = errorsWithout(dissected);
  const own = all.buckets[all.codes[followed] - 1];
  return {
    picture: "buckets",
    buckets: all.buckets.map(({ exponent, sign, count }, i) => ({
      exponent,
      sign,
      kept: i < nKept ? count : 0,
      rest: i < nKept ? 0 : count,
      rank: i + 1,
      error: Number(without[i].toFixed(5)),
      loss: worth ? plotted(worth.without[i]) : null,
    })),
    alphabets: [all.buckets.length],
    slots: [nKept],
    n,
    changed: n - checkpoint.quantized.counts[0],
    bits: bitsThatKeep(nKept, all.buckets.length),
    marked: own ? [own.exponent, own.sign] : null,
    moments: false,
    carries: setting.carries,
    view: byWorth ? "error" : "values",
    rounding: Number(rounding.toFixed(5)),
    measured: worth !== null,
    loss: worth ? plotted(worth.loss) : null,
    waiting: byWorth && playing ? "Pause to measure the loss without each bucket." : "",
  };
}

/** The button of the fewest bits that keep so many of n buckets; "" if none does. @param {number} nKept @param {number} n */
function bitsThatKeep(nKept, n) {
  if (nKept === n) return "all";
  const x = [1, 2, 3, 4, 5, 6, 7, 8].find((bits) => Math.min(promotedBy(bits), n) === nKept);
  return x === undefined ? "" : String(x);
}

/** The bar of a code in equal steps: 0 is the dead zone. @param {number} code @param {number} each steps a bar */
const barOf = (code, each) => Math.sign(stepsOfCode(code)) * Math.ceil(Math.abs(stepsOfCode(code)) / each);

/** Steps that share a bar. @param {Quantized} quantized */
const stepsOfBar = (quantized) => Math.max(Math.ceil(Math.floor(quantized.counts.length / 2) / MOST_BARS), 1);

/** @param {Shown} shown @returns {StepsFacts & { picture: string }} */
function stepsFacts({ checkpoint, setting, followed, raised }) {
  const { quantized, delta } = checkpoint;
  const { counts, size, codes } = quantized;
  const each = stepsOfBar(quantized);
  /** @type {Map<number, number>} */
  const bars = new Map();
  counts.forEach((count, code) => {
    const at = barOf(code, each);
    if (code && count) bars.set(at, (bars.get(at) ?? 0) + count);
  });
  return {
    picture: "steps",
    size,
    each,
    bars: [...bars].sort(([a], [b]) => a - b).map(([at, count]) => ({ at, count })),
    dead: counts[0],
    n: codes.length,
    reach: Math.abs(stepsOfCode(counts.length - 1)),
    marked: delta[followed] !== 0 ? barOf(codes[followed], each) : null,
    tensor: "",
    moments: false,
    carries: setting.carries,
    raised,
  };
}

// How many weights change from one file to the next, what it takes to store them without loss, and why a
// small update leaves most weights of a short type as they are.

const FIRST_RATE = 1e-5;
const MOST_OUTSIDE = 0.005; // share of the weights with gaps too small to be drawn on their own

/**
 * @typedef {object} GapsFacts
 * @property {[string, string]} files the two that are compared
 * @property {string[]} types of the weights
 * @property {number} n weights
 * @property {number} changed those whose bits differ
 * @property {[number, number, number][]} gaps rising: the power of two from a weight to the next value of
 * its type, how many weights have it, and how many of them changed
 * @property {number} whole bytes of all weights
 * @property {number | null} residual bytes of the change as the codec's residual; null until it is measured
 * @property {number | null} deflated bytes of the change as XOR + deflate; likewise
 * @property {number} [rate] learning rate that is tried
 */

/** Of the weights with this gap, the share that one step of Adam changes, if their float32 copies lie evenly between neighbouring values. @param {number} rate @param {number} gap */
const shareMoved = (rate, gap) => Math.min(rate / 2 ** gap, 1);

/** A rate, a gap or a weight in short. @param {number} value */
const shortText = (value) => (value < 1e-3 ? value.toExponential(1).replace(".0e", "e").replace("-", "−") : significant(value, 2));

/** The gaps that are drawn: smaller ones count as the first of them. @param {GapsFacts} facts @returns {GapsFacts["gaps"]} */
function gapsDrawn({ gaps, n }) {
  let below = 0;
  const i = gaps.findIndex(([, count]) => (below += count) > MOST_OUTSIDE * n);
  const sums = [1, 2].map((column) => gaps.slice(0, i + 1).reduce((sum, gap) => sum + gap[column], 0));
  return [[gaps[i][0], sums[0], sums[1]], ...gaps.slice(i + 1)];
}

SAYS.gaps = (/** @type {GapsFacts} */ facts) => {
  const { files, types, n, changed, whole, residual, deflated, rate = FIRST_RATE } = facts;
  const gaps = gapsDrawn(facts);
  const moved = facts.gaps.reduce((sum, [gap, count]) => sum + count * shareMoved(rate, gap), 0);
  const measured = (/** @type {number | null} */ nbytes) => (nbytes === null ? "measuring …" : nbytesText(nbytes));
  return {
    title: "Without loss",
    number: 6,
    about: `from ${files[0]} to ${files[1]}, every bit kept`,
    text: `${percentText(changed / n)} of the weights have other bits than in ${files[0]}. One step of Adam moves a weight by about the learning rate. At ${shortText(rate)} it would change ${percentText(moved / n)} of them: rounding to ${enumerated(types)} may undo what is less than the gap to the next value. Larger weights have larger gaps.`,
    rate,
    bars: gaps.map(([gap, count, own]) => ({ gap, count, share: shareMoved(rate, gap), own: own / count })),
    sizes: [["the file’s weights", whole], ["XOR + deflate", deflated], ["the codec’s residual", residual]].map(([name, nbytes]) => ({ name, share: Number(nbytes ?? 0) / whole, text: measured(/** @type {number | null} */ (nbytes)) })),
  };
};

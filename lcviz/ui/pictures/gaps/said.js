// Which bits change from one file to the next, what it takes to store them without loss, and why a
// small update leaves most weights of a short type as they are.

const FIRST_UPDATE = 1e-5;
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
 * @property {number | null} residual of what changed, as the codec stores it; null until it is measured
 * @property {number | null} deflated the same as XOR + deflate
 * @property {number} [update] size of an update that is tried
 */

/** The share of weights with a gap that an update changes, rounded from float32. @param {number} update @param {number} gap */
const shareMoved = (update, gap) => Math.min(update / 2 ** gap, 1);

/** An update, a gap or a weight in short. @param {number} value */
const shortText = (value) => (value < 1e-3 ? value.toExponential(1).replace(".0e", "e").replace("-", "−") : significant(value, 2));

/** The gaps that are drawn: smaller ones count as the first of them. @param {GapsFacts} facts @returns {GapsFacts["gaps"]} */
function gapsDrawn({ gaps, n }) {
  let below = 0;
  const i = gaps.findIndex(([, count]) => (below += count) > MOST_OUTSIDE * n);
  const sums = [1, 2].map((column) => gaps.slice(0, i + 1).reduce((sum, gap) => sum + gap[column], 0));
  return [[gaps[i][0], sums[0], sums[1]], ...gaps.slice(i + 1)];
}

SAYS.gaps = (/** @type {GapsFacts} */ facts) => {
  const { files, types, n, changed, whole, residual, deflated, update = FIRST_UPDATE } = facts;
  const gaps = gapsDrawn(facts);
  const moved = gaps.reduce((sum, [gap, count]) => sum + count * shareMoved(update, gap), 0);
  const measured = (/** @type {number | null} */ nbytes) => (nbytes === null ? "measuring …" : nbytesText(nbytes));
  return {
    title: "Without loss",
    number: 6,
    about: `all bits of ${files[1]}`,
    text: `${percentText(changed / n)} of the weights have other bits than in ${files[0]}. An update of ${shortText(update)} would change ${percentText(moved / n)}: a weight in ${enumerated(types)} changes only if rounding takes it across the gap to the next value, and the larger the weight, the wider the gap.`,
    update,
    bars: gaps.map(([gap, count, own]) => ({ gap, count, share: shareMoved(update, gap), own: own / count })),
    sizes: [["the file’s weights", whole], ["XOR + deflate", deflated], ["the codec’s residual", residual]].map(([name, nbytes]) => ({ name, share: Number(nbytes ?? 0) / whole, text: measured(/** @type {number | null} */ (nbytes)) })),
  };
};

// The bars of equal steps, beside the powers of two.

/**
 * @typedef {object} StepsFacts
 * @property {number} size of a step; 0 if all changes lie in the dead zone
 * @property {number} each how many steps share a bar
 * @property {{ at: number, count: number }[]} bars rising; 0 is the dead zone
 * @property {number} dead values in the dead zone
 * @property {number} n values
 * @property {number} reach steps to the furthest change
 * @property {number | null} marked the bar of the followed weight
 * @property {string} tensor whose bars these are; "" for all
 * @property {boolean} moments whether the record has an optimizer's moments
 * @property {boolean} carries
 * @property {number | null} raised the share of float32 that took the place of a smaller budget
 * @property {boolean} [from_record] whether only records are known, and no training
 */

SAYS.steps = (/** @type {StepsFacts} */ facts) => {
  const { size, each: every, bars, dead, tensor, moments, carries, raised } = facts;
  const raisedText = raised === null ? "" : ` The size is raised to ${percentText(raised)}: with less, a checkpoint may hold no change.`;
  return {
    title: "Equal steps",
    number: 2,
    about: tensor || (moments ? "of the weights" : ""),
    text: stepsSentence(facts) + raisedText,
    left_out: leftOut(carries),
    largest: Math.max(dead, ...bars.map(({ count }) => count)),
    octaves: octavesBeside(size, every, Math.max(1, ...bars.map(({ at }) => Math.abs(at)))),
    options: facts.from_record ? [] : KEEPS,
    bits: facts.from_record ? "" : "steps",
  };
};

/** @param {StepsFacts} facts */
function stepsSentence({ size, n, dead, reach, tensor, carries }) {
  if (!size) return `All changes lie in the dead zone: they ${leftOut(carries)}.`;
  return `Steps of ${significant(size)}: ${groupedNumber(n - dead)} of ${groupedNumber(n)} values${tensor && " of this tensor"} move by up to ${pluralText(reach, "step")}. Smaller changes lie in the dead zone and ${leftOut(carries)}.`;
}

/** Where the paper's buckets would begin, in bars from zero. @param {number} size of a step @param {number} every steps in a bar @param {number} reach the last bar */
function octavesBeside(size, every, reach) {
  if (!size) return [];
  const [first, last] = [Math.floor(Math.log2(size)), Math.floor(Math.log2(size * (reach * every + 0.5)))];
  return Array.from({ length: last - first + 1 }, (_, i) => ({ at: 2 ** (first + i) / size / every + 0.5 - 0.5 / every, text: powerText(first + i) }));
}

// The bytes of each record of a chain.

/**
 * @typedef {object} SizesFacts
 * @property {number} step that the other pictures show
 * @property {number} nbytes of its record
 * @property {number} full bytes of the state in float32
 * @property {[number, number][]} sizes step and bytes of each record after a base
 * @property {number} first the beginning of the axis
 * @property {number} last its end
 */

SAYS.sizes = (/** @type {SizesFacts} */ { step, nbytes, full, sizes, first, last }) => ({
  title: "Sizes",
  number: 5,
  about: "bytes of each record after a base",
  text: `Step ${step}: ${nbytesText(nbytes)}; float32 takes ${nbytesText(full)}.`,
  lines: [lineOf("record", "kept", sizes)],
  marks: [{ step, text: `step ${step}`, strong: false }],
  range: [first, last],
  log: true,
  ...OVER_STEPS,
});

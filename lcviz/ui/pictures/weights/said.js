// One tensor of the model as an image: what a checkpoint changes in it.

/**
 * @typedef {object} WeightsFacts
 * @property {number} step
 * @property {string} tensor its name
 * @property {string} size its shape in words
 * @property {string[]} tensors names of those that can be drawn
 * @property {[number, number]} shape rows and columns of the maps
 * @property {{ written: string, restored: string, missing: string }} maps base64 of two pixels a byte
 * @property {number} n weights of the tensor
 * @property {number} written how many the record moves
 * @property {number} missing how many differ from the track
 * @property {[number, number] | null} followed row and column of the followed weight
 * @property {object | null} values of each pixel, while nothing plays
 * @property {boolean} carries
 * @property {number} [each] values that share a pixel, if several do
 * @property {boolean} [from_record] whether only records are known, and no training
 */

const MAP_HEIGHT = 158; // CSS pixels

SAYS.weights = (/** @type {WeightsFacts} */ facts) => {
  const { n, written, missing, tensor, size, carries, each: shared = 1, from_record: fromRecord } = facts;
  const most = shared > 1 ? ` A pixel shows the one of ${pluralText(Math.ceil(shared), "value")} that changes most.` : "";
  const [of, stays] = [`${tensor} (${size})`, leftOut(carries, "stays")];
  const weights = (/** @type {number} */ count) => `${groupedNumber(count)} of ${pluralText(n, "weight")} in ${of}`;
  const captions = {
    written: `Coloured: ${weights(written)}. What is left of δ ${stays}.${most}`,
    missing: fromRecord
      ? "Nothing to show: what a step left out is not recorded."
      : `Coloured: ${weights(missing)} differ from the [[track]], left out or rounded. That ${stays}.${most}`,
  };
  let about = carries ? "live weights minus what a restart loads" : "since the last checkpoint";
  if (fromRecord) about = "what this record moves";
  const marked = Object.entries(captions).map(([name, text]) => /** @type {const} */ ([name, withTerms({ title: "", text })]));
  return {
    title: "δ",
    number: 1,
    about,
    text: captions.written,
    captions: Object.fromEntries(marked.map(([name, { text }]) => [name, text])),
    terms: Object.assign({}, ...marked.map(([, { terms }]) => terms)),
    height: MAP_HEIGHT,
    left_out: stays,
    without_values: fromRecord ? "its record has no more" : undefined,
  };
};

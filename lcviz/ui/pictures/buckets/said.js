// The buckets of a change, what each is worth, and the cut between kept and postponed.

/**
 * One bucket of the change.
 * @typedef {object} BucketFacts
 * @property {number} exponent
 * @property {number} sign 0 for up, 1 for down
 * @property {number} kept how many values
 * @property {number} rest how many values are left out
 * @property {number} rank in promotion order, from 1
 * @property {number} error share of the change that is lost without it
 * @property {number | null} loss of the model without it, if measured
 */

/**
 * @typedef {object} BucketsFacts
 * @property {BucketFacts[]} buckets in promotion order
 * @property {number[]} alphabets how many buckets each of them has
 * @property {number[]} slots how many are kept in each
 * @property {number} n values of the change
 * @property {number} changed values
 * @property {string} bits the pressed button: the fewest bits that keep the same; "" for none
 * @property {[number, number] | null} marked exponent and sign of the followed weight's bucket
 * @property {boolean} moments whether the record has an optimizer's moments
 * @property {boolean} carries
 * @property {"values" | "error"} view what the bars show
 * @property {number} rounding share of the change that is lost with all buckets
 * @property {boolean} measured whether losses are
 * @property {number | null} loss of the model with all buckets; null if not measured or not finite
 * @property {string} waiting why losses are not measured yet, as a sentence; "" for no reason
 * @property {boolean} [from_record] whether only records are known, and no training
 */

SAYS.buckets = (/** @type {BucketsFacts} */ facts) => {
  const { buckets, alphabets, slots, carries, view } = facts;
  const exponents = buckets.length ? buckets.map(({ exponent }) => exponent) : [0];
  const [first, last] = [Math.max(...exponents), Math.min(...exponents)];
  const isOne = alphabets.length === 1 && buckets.length > 0;
  return {
    title: "Buckets",
    number: 2,
    about: facts.moments ? "of the weights" : "",
    text: bucketsSentence(facts),
    exponents: Array.from({ length: first - last + 1 }, (_, i) => first - i),
    largest: Math.max(1, ...buckets.map(({ kept, rest }) => kept + rest)),
    cut: isOne && !facts.from_record ? slots[0] : null,
    most: Math.max(0, ...alphabets),
    options: facts.from_record ? [] : KEEPS,
    bits: facts.from_record ? "" : facts.bits,
    left_out: leftOut(carries),
    view,
  };
};

/** @param {BucketsFacts} facts */
function bucketsSentence(facts) {
  const { buckets, alphabets, slots, n, changed, bits, carries, view } = facts;
  const [nBuckets, nSlots] = [alphabets, slots].map((counts) => counts.reduce((sum, count) => sum + count, 0));
  if (facts.from_record) return `${pluralText(nSlots, "bucket")}: ${groupedNumber(changed)} values change; what a step left out is not recorded.`;
  if (!nBuckets) return "Nothing has changed in this step.";
  if (view === "error") return worthSentence(facts);
  const where = alphabets.length === 1 ? "" : " in all tensors";
  const changedText = quantity("values-kept", changed, groupedNumber(changed));
  if (nSlots === nBuckets) return `All ${nBuckets} buckets${where} are kept: ${changedText} values change.`;
  let slotsText = pluralText(nSlots, "slot");
  if (alphabets.length === 1 && bits && nSlots === 2 ** Number(bits) - 1) slotsText = `${powerText(Number(bits))} − 1 = ${slotsText}`;
  return `${slotsText} for ${nBuckets} buckets${where}, largest first: ${changedText} of ${groupedNumber(n)} values are kept. Paler ones ${leftOut(carries)}. Log scale.`;
}

/** What the removal of the most important bucket costs, and of the marked one. @param {BucketsFacts} facts */
function worthSentence({ buckets, marked, rounding, measured: isMeasured, loss, waiting }) {
  const most = buckets.reduce((best, bucket) => (bucket.error > best.error ? bucket : best));
  const name = bucketText(most.exponent, most.sign);
  const other = buckets.find((bucket) => bucket !== most && marked?.join() === `${bucket.exponent},${bucket.sign}`);
  const otherText = other ? ` Without the outlined bucket, ${percentText(other.error)} is lost.` : "";
  const measured = isMeasured ? `: the loss is ${shortLossText(most.loss ?? NaN)} instead of ${shortLossText(loss ?? NaN)}` : "";
  return `Rounding loses ${percentText(rounding)} of δ. Without the bucket ${name}, ${percentText(most.error)} is lost${measured}.${otherText}${waiting && ` ${waiting}`}`;
}

// A checkpoint's bytes by part, its first code words, and its size with other codes, as
// lcviz.live.bits_picture.

const WORDS_SHOWN = 24;

/** @param {View} view */
function bitsPicture({ run, checkpoint, dissected, setting, followed, isTrial, words }) {
  const { quantized, encoded, nbytes } = checkpoint;
  const { header } = run.sizes;
  const bits = encoded.streams.reduce((sum, stream) => sum + stream, 0);
  const wordNbytes = Math.ceil(bits / 8);
  const table = encoded.table === null ? "no code table" : encoded.reused ? "the last code table" : "its own code table";
  const whole = quantity("checkpoint-bytes", nbytes, nbytesText(nbytes));
  /** @param {Coder} coder */
  const sizeWith = (coder) => (coder === setting.coder ? nbytes - header : nbytesWith(quantized, coder, null));
  const plain = plainBits(dissected.nKept);
  const beats = setting.coder === "runlength" && nbytes - header < entropyNbytes(quantized.counts) ? " Runs of zeros take less than the entropy of single values." : "";
  return pictureData("bits", "Bits", isTrial ? "with what you try" : "of this checkpoint on disk", `${whole}, ${significant((8 * nbytes) / N)} bits per parameter, with ${table}.${beats}`, {
    parts: [
      part("header", "header-bytes", header, "Digests that find every damaged byte, the step, settings, and where each part begins. It hardly grows with the model."),
      part("table", "table-bytes", nbytes - header - wordNbytes, "Which code word stands for what, and the level of each bucket."),
      part("code words", "payload-bytes", wordNbytes, "The changes themselves."),
    ],
    words: shownWords(checkpoint, words, followed),
    compare: [
      comparison(`${pluralText(plain, "bit")} each`, Math.ceil((N * plain) / 8), "Without a code: each value is the number of its slot, or 0."),
      { ...comparison("run-length Huffman", sizeWith("runlength"), "One code word for a run of zeros and the value after it.", "runlength-bytes"), here: setting.coder === "runlength" },
      { ...comparison("Huffman (paper)", sizeWith("huffman"), "One code word for every value, as in the paper: at least 1 bit each.", "huffman-bytes"), here: setting.coder === "huffman" },
      comparison("entropy of values", entropyNbytes(quantized.counts), "Shannon's bound for codes of single values. Run-length coding gets below it where zeros cluster, a context code where changes do."),
    ],
    words_are: words.length ? "" : "No bits are needed: all values are alike.",
    coders: [["runlength", "run-length"], ["huffman", "Huffman"]],
    coder: setting.coder,
  }, 3);
}

/** @param {string} name @param {string} quantityName @param {number} nbytes @param {string} title */
const part = (name, quantityName, nbytes, title) => ({ name, nbytes, text: quantity(quantityName, nbytes, nbytesText(nbytes)), title });

/** @param {string} name @param {number} nbytes @param {string} title @param {string} quantityName */
const comparison = (name, nbytes, title, quantityName = "") => ({
  name,
  nbytes,
  text: quantityName ? quantity(quantityName, nbytes, nbytesText(nbytes)) : nbytesText(nbytes),
  here: false,
  title,
});

/** The first code words, and that of the followed weight if it is not among them. @param {Checkpoint} checkpoint @param {CodeWord[]} words @param {number} followed */
function shownWords(checkpoint, words, followed) {
  const { quantized } = checkpoint;
  const shown = words.slice(0, WORDS_SHOWN).map((word) => ({ ...wordData(quantized, word), here: word.at === followed }));
  const own = wordAt(words, followed);
  if (!own || shown.some((word) => word.here)) return shown;
  const data = { ...wordData(quantized, own), ...(own.zero ? { sign: 2 } : {}), bits: own.word || "0", title: codeText(checkpoint, words, followed) };
  return [...shown, { ...data, here: true, after: true, weight: followed, pixel: pixelOf(followed) }];
}

/** A code word with its meaning. sign: 0 up, 1 down, 2 no change. @param {Quantized} quantized @param {CodeWord} word */
function wordData({ levels, size, buckets }, { word, rest, run, at, code }) {
  const data = { bits: word + rest, sign: 2, title: "no change", weight: at, pixel: pixelOf(at) };
  if (code === 0) return data;
  const sign = levels[code] < 0 ? 1 : 0;
  const change = size ? `${sign ? "−" : "+"}${pluralText(Math.abs(stepsOfCode(code)), "step")}` : bucketText(buckets[code - 1].exponent, sign);
  return { ...data, sign, title: `${run ? `${pluralText(run, "zero")}, then ` : ""}${change}` };
}

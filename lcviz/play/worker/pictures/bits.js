// The facts of a checkpoint's bytes by part, its first code words, and its size with other codes.

const WORDS_SHOWN = 24;
const CONTEXT_CODE = { title: "context code", a_title: "a context code" };

/** @param {Shown} shown @returns {BitsFacts & { picture: string }} */
function bitsFacts({ checkpoint, nKept, setting, followed, isTrial, coders, matrices, pixelOf, sizes }) {
  const { quantized, encoded, nbytes } = checkpoint;
  const n = quantized.codes.length;
  const wordNbytes = Math.ceil(encoded.bits / 8);
  const plain = plainBits(nKept);
  const coded = { quantized, encoded, matrices };
  const words = codeWordsOf(coded, WORDS_SHOWN);
  const first = words.map((word) => wordFacts(coded, word, followed, pixelOf));
  const own = wordAt(coded, followed);
  const isAmong = !own || first.some(({ here }) => here);
  return {
    picture: "bits",
    nbytes,
    n,
    is_trial: isTrial,
    table: encoded.table === null ? "none" : encoded.reused ? "last" : "own",
    shared: encoded.shared ? CONTEXT_CODE : null,
    parts: [
      { name: "header", nbytes: nbytes - encoded.coded },
      { name: "table", nbytes: encoded.coded - wordNbytes },
      { name: "code words", nbytes: wordNbytes },
    ],
    weights_nbytes: encoded.coded,
    moments: false,
    plain: { bits: plain, nbytes: Math.ceil((n * plain) / 8) },
    sizes: sizes ?? Object.fromEntries(coders.map(({ name }) => [name, sizeWith(/** @type {Coder} */ (name), { quantized, encoded, matrices }, setting)])),
    entropy: entropyNbytes(quantized.counts),
    coder: setting.coder,
    all_coders: coders,
    words: first,
    shares: encoded.shared,
    followed: isAmong
      ? null
      : {
          code: /** @type {ValueCode} */ (codeOf(coded, followed)),
          sign: own.zero ? 2 : wordFacts(coded, own, followed, pixelOf).sign,
          weight: followed,
          pixel: pixelOf(followed),
        },
  };
}

/** Bytes of the same codes with a coder. @param {Coder} coder @param {Coded} coded @param {Setting} setting */
const sizeWith = (coder, { quantized, encoded, matrices }, setting) => (coder === setting.coder ? encoded.coded : encodeCodes(quantized, { coder, matrices, last: null }).coded);

/** @param {Coded} coded @param {CodeWord} word @param {number} followed @param {Shown["pixelOf"]} pixelOf @returns {WordFacts} */
function wordFacts({ quantized: { levels, uniform, buckets } }, { word, rest, run, at, code }, followed, pixelOf) {
  return {
    bits: word + rest,
    sign: code === 0 ? 2 : levels[code] < 0 ? 1 : 0,
    exponent: code && !uniform ? buckets[code - 1].exponent : null,
    steps: code && uniform ? Math.abs(stepsOfCode(code)) : null,
    run,
    weight: at,
    pixel: pixelOf(at),
    here: at === followed,
  };
}

/** The bits that encode a value. @param {Coded} coded @param {number} at @returns {ValueCode | null} */
function codeOf(coded, at) {
  const { table, shared } = coded.encoded;
  const none = { word: "", extra_bits: 0, run: null, zero: 0, escaped: false, shared: shared ? CONTEXT_CODE.a_title : "" };
  if (table === null) return none;
  const own = wordAt(coded, at);
  if (!own) return null;
  const single = table.classes === 1;
  return { ...none, word: own.word, extra_bits: own.rest.length, run: single ? null : own.run, zero: own.zero };
}

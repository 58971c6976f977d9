// The facts of a checkpoint's bytes by part, its first code words, and its size with other codes.

const WORDS_SHOWN = 24;
const KNOWN = ["runlength", "huffman"]; // coders of tables.js

/** @param {View} view @returns {BitsFacts & { picture: string }} */
function bitsFacts({ run, checkpoint, dissected, setting, followed, isTrial, words, coders }) {
  const { quantized, encoded, nbytes } = checkpoint;
  const { header } = run.sizes;
  const wordNbytes = Math.ceil(encoded.bits / 8);
  const plain = plainBits(dissected.nKept);
  const sizes = coders.filter(({ name }) => KNOWN.includes(name)).map(({ name }) => [name, name === setting.coder ? nbytes - header : nbytesWith(quantized, /** @type {Coder} */ (name), null)]);
  const first = words.slice(0, WORDS_SHOWN).map((word) => wordFacts(quantized, word, followed));
  const own = wordAt(words, followed);
  const isAmong = !own || first.some(({ here }) => here);
  return {
    picture: "bits",
    nbytes,
    n: N,
    is_trial: isTrial,
    table: encoded.table === null ? "none" : encoded.reused ? "last" : "own",
    shared: null,
    parts: [
      { name: "header", nbytes: header },
      { name: "table", nbytes: nbytes - header - wordNbytes },
      { name: "code words", nbytes: wordNbytes },
    ],
    weights_nbytes: nbytes - header,
    moments: false,
    plain: { bits: plain, nbytes: Math.ceil((N * plain) / 8) },
    sizes: Object.fromEntries(sizes),
    entropy: entropyNbytes(quantized.counts),
    coder: setting.coder,
    all_coders: coders,
    words: first,
    shares: false,
    followed: isAmong
      ? null
      : {
          code: /** @type {ValueCode} */ (codeOf(checkpoint, words, followed)),
          sign: own.zero ? 2 : wordFacts(quantized, own, followed).sign,
          weight: followed,
          pixel: pixelOf(followed),
        },
  };
}

/** @param {Quantized} quantized @param {CodeWord} word @param {number} followed @returns {WordFacts} */
function wordFacts({ levels, size, buckets }, { word, rest, run, at, code }, followed) {
  return {
    bits: word + rest,
    sign: code === 0 ? 2 : levels[code] < 0 ? 1 : 0,
    exponent: code && !size ? buckets[code - 1].exponent : null,
    steps: code && size ? Math.abs(stepsOfCode(code)) : null,
    run,
    weight: at,
    pixel: pixelOf(at),
    here: at === followed,
  };
}

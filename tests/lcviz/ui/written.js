// Writes the bits that the page only counts, so that they can be compared with the codec's.

/** The streams of a change. last: the table of an earlier checkpoint. */
function writtenBy(quantized, coder, last) {
  const message = messageOf(quantized, coder, last);
  if (message === null) return [];
  const { elements, tokens, choice: { table } } = message;
  return tokens && table.classes > 1 ? writeTokens(tokens, table, quantized.counts.length - 1) : writeCodes(quantized.codes, table, elements);
}

/** @param {Uint16Array} codes @param {CodeTable} table @param {number} elements of each stream but the last */
function writeCodes(codes, table, elements) {
  const words = codeWords(table.lengths);
  const writers = [];
  for (let begin = 0; begin < codes.length; begin += elements) {
    const writer = new BitWriter();
    for (const code of codes.subarray(begin, begin + elements)) writer.write(words[code], table.lengths[code]);
    writers.push(writer);
  }
  return writers;
}

/** @param {Tokens} tokens @param {CodeTable} table @param {number} n the number of symbols */
function writeTokens({ runs, symbols, ends }, table, n) {
  const words = codeWords(table.lengths);
  let i = 0;
  return ends.map((end) => {
    const writer = new BitWriter();
    for (; i < end; i++) {
      const [c, extra] = classOf(runs[i]);
      const length = lengthOfToken(table, symbols[i] - 1, c);
      if (length > 0) {
        writer.write(words[1 + (symbols[i] - 1) * table.classes + c], length);
      } else {
        writer.write(words[0], table.lengths[0]);
        writer.write(c, CLASS_BITS);
        writer.write(symbols[i] - 1, symbolBits(n));
      }
      writer.write(runs[i], extra); // its lowest bits
    }
    return writer;
  });
}

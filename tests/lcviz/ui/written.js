// Writes the bits that the page only counts, so that they can be compared with the codec's.

/** Bits that fill 32-bit words from the lowest bit on. */
class BitWriter {
  constructor() {
    /** @type {number[]} */
    this.words = [];
    this.bits = 0;
  }

  /** Write the n lowest bits of a value, the lowest first. @param {number} value @param {number} n up to 32 */
  write(value, n) {
    for (let done = 0; done < n; ) {
      const at = this.bits & 31;
      if (at === 0) this.words.push(0);
      const take = Math.min(32 - at, n - done);
      const part = (value >>> done) & (take === 32 ? 0xffffffff : (1 << take) - 1);
      const last = this.words.length - 1;
      this.words[last] = (this.words[last] | (part << at)) >>> 0;
      this.bits += take;
      done += take;
    }
  }
}

/** Steps from one length to the next one -> [bits, how many], the lowest bit first. */
const STEPS = new Map([
  [0, [0b1, 1]],
  [1, [0b010, 3]],
  [-1, [0b100, 3]],
  [2, [0b01000, 5]],
  [-2, [0b11000, 5]],
]);

/** The bytes of a table on disk: its lengths, as FORMAT.md describes them under Tables. @param {Uint8Array} lengths */
function packedLengths(lengths) {
  const writer = new BitWriter();
  const end = lengths.reduce((last, length, i) => (length > 0 ? i + 1 : last), 0);
  let last = FIRST_LENGTH;
  for (let i = 0; i < end; i++) {
    if (lengths[i] > 0) {
      const [bits, n] = STEPS.get(lengths[i] - last) ?? [lengths[i] << 4, 8];
      writer.write(bits, n);
      last = lengths[i];
      continue;
    }
    let run = 1;
    for (; lengths[i + 1] === 0; i++) run += 1; // it ends: the last length is not 0
    const power = 31 - Math.clz32(run);
    writer.write(0b110, 3);
    writer.write(1 << power, power + 1);
    writer.write(run - (1 << power), power);
  }
  return new Uint8Array(Uint32Array.from(writer.words).buffer, 0, Math.ceil(writer.bits / 8)); // unused bits are 0
}

/** The streams of a change. @param {Quantized} quantized @param {Stage} stage */
function writtenBy(quantized, stage) {
  const { elements, choice } = messageOf(quantized, stage);
  if (!choice) return [];
  const { codes, counts } = quantized;
  const write = choice.table.classes > 1 ? writeTokens : writeCodes;
  return Array.from({ length: Math.ceil(codes.length / elements) }, (_, i) => {
    const writer = new BitWriter();
    write(writer, codes.subarray(i * elements, (i + 1) * elements), choice.table, counts.length - 1);
    return writer;
  });
}

/** @param {BitWriter} writer @param {Uint16Array} codes @param {CodeTable} table */
function writeCodes(writer, codes, table) {
  const words = codeWords(table.lengths);
  for (const code of codes) writer.write(words[code], table.lengths[code]);
}

/** @param {BitWriter} writer @param {Uint16Array} codes @param {CodeTable} table @param {number} n the number of symbols */
function writeTokens(writer, codes, table, n) {
  const words = codeWords(table.lengths);
  let next = 0;
  codes.forEach((code, i) => {
    if (code === 0) return;
    const run = i - next;
    next = i + 1;
    const [c, extra] = classOf(run);
    const length = lengthOfToken(table, code - 1, c);
    if (length > 0) {
      writer.write(words[1 + (code - 1) * table.classes + c], length);
    } else {
      writer.write(words[0], table.lengths[0]);
      writer.write(c, CLASS_BITS);
      writer.write(code - 1, symbolBits(n));
    }
    writer.write(run, extra); // its lowest bits
  });
}

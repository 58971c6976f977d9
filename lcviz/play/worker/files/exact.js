// The change between two files without loss: how many weights change, and its bytes as the codec's
// residual and as XOR + deflate.

/** Of each dtype: its name, and its largest exponent. @type {Record<string, [string, number]>} */
const FLOATS = { F32: ["float32", 255], BF16: ["bfloat16", 255], F16: ["float16", 31] };
const PIECE = 2 ** 16; // bytes that are deflated at once

/** @typedef {Pick<GapsFacts, "n" | "changed" | "gaps" | "residual" | "deflated">} Exact */

/** The bits of the values of a tensor. @param {Float32Array | Uint16Array} values */
const wordsOf = (values) => (values instanceof Float32Array ? bitsOfValues(values) : values);

/** How many weights change, by the gap to the next value. @param {StateFile} before @param {StateFile} after @returns {Exact} */
function changesByGap(before, after) {
  /** @type {Map<number, [number, number, number]>} */
  const gaps = new Map();
  before.tensors.forEach(({ dtype }, t) => {
    const [most, mantissa] = [FLOATS[dtype][1], MANTISSAS[dtype]];
    const [old, next] = [before, after].map(({ values }) => wordsOf(values[t]));
    const counts = new Uint32Array(2 * most + 2);
    for (let i = 0; i < old.length; i++) counts[2 * ((old[i] >>> mantissa) & most) + (old[i] === next[i] ? 0 : 1)] += 1;
    for (let e = 0; e <= most; e++) {
      if (!counts[2 * e] && !counts[2 * e + 1]) continue;
      const gap = Math.max(e, 1) - (most >> 1) - mantissa; // subnormals are as close as the smallest others
      const [, count, changed] = gaps.get(gap) ?? [gap, 0, 0];
      gaps.set(gap, [gap, count + counts[2 * e] + counts[2 * e + 1], changed + counts[2 * e + 1]]);
    }
  });
  const all = [...gaps.values()].sort(([one], [other]) => one - other);
  const [n, changed] = [1, 2].map((column) => all.reduce((sum, own) => sum + own[column], 0));
  return { n, changed, gaps: all, residual: null, deflated: null };
}

/** Bytes of all tensors that change, each as a residual or, where that is no less, whole. @param {StateFile} before @param {StateFile} after */
function residualsNbytes(before, after) {
  return before.tensors.reduce((sum, { dtype, n }, t) => {
    const [old, next] = [before, after].map(({ values }) => wordsOf(values[t]));
    if (old.every((word, i) => word === next[i])) return sum;
    return sum + (residualNbytes(old, next, dtype) ?? n * WIDTHS[dtype]);
  }, 0);
}

/** Bytes of what differs, bit by bit, deflated. @param {StateFile} before @param {StateFile} after */
async function deflatedNbytes(before, after) {
  const { readable, writable } = new CompressionStream("deflate-raw");
  const [writer, reader] = [writable.getWriter(), readable.getReader()];
  const written = (async () => {
    for (const [t, { buffer, byteLength }] of before.values.entries()) {
      const [old, next] = [new Uint8Array(buffer, 0, byteLength), new Uint8Array(after.values[t].buffer)];
      for (let at = 0; at < byteLength; at += PIECE) {
        const piece = old.slice(at, at + PIECE);
        for (let i = 0; i < piece.length; i++) piece[i] ^= next[at + i];
        await writer.write(piece);
      }
    }
    await writer.close();
  })();
  let nbytes = 0;
  for (let read = await reader.read(); !read.done; read = await reader.read()) nbytes += read.value.length;
  await written;
  return nbytes;
}

/** @param {Series} series @param {number} step from 1 on @returns {GapsFacts & { picture: string }} */
function gapsFacts(series, step) {
  const names = series.states.slice(step - 1, step + 1).map(({ name }) => shortName(name));
  const types = [...new Set(series.tensors.map(({ dtype }) => FLOATS[dtype][0]))];
  const whole = series.tensors.reduce((sum, { n, dtype }) => sum + n * WIDTHS[dtype], 0);
  return { picture: "gaps", files: [names[0], names[1]], types, whole, ...series.exactOf(step) };
}

// States in .safetensors files, read in slices: nothing leaves the browser.

const SLICE_NBYTES = 8e6; // that are read at once
const MOST_HEADER = 16 * 2 ** 20; // bytes
const TINY = 8; // elements: tensors with fewer are stored exactly
const STATISTICS = /running_(mean|var)$/; // of a batch norm: likewise
/** @type {Record<string, number>} bytes of a value that may be lossy */
const WIDTHS = { F32: 4, F16: 2, BF16: 2 };

/**
 * A tensor that is saved with loss.
 * @typedef {object} Tensor
 * @property {string} name
 * @property {string} dtype of WIDTHS
 * @property {number[]} shape
 * @property {number} n values
 * @property {number} begin its first value, among those of all tensors
 * @property {number} offset of its first byte in the file
 */

/**
 * A state in a file.
 * @typedef {object} StateFile
 * @property {string} name of the file
 * @property {Tensor[]} tensors in the order of the file
 * @property {string[]} exact names of the others, which are stored exactly
 * @property {(Float32Array | Uint16Array)[]} values of each tensor, as they are in the file
 */

/** What is wrong with a file, as a sentence. */
class FileError extends Error {}

/**
 * Read a file.
 * @param {File} file
 * @param {(nbytes: number) => void} progress called with the bytes of each slice
 * @returns {Promise<StateFile>}
 */
async function readState(file, progress) {
  const { name } = file;
  if (!name.endsWith(".safetensors")) throw new FileError(`${name} is no .safetensors file. Save the weights with safetensors.torch.save_file.`);
  const { tensors, exact } = await readHeader(file);
  if (!tensors.length) throw new FileError(`${name} has no tensor of float32, bfloat16 or float16 with ${TINY} values or more.`);
  const values = [];
  for (const { dtype, n, offset, name: tensor } of tensors) {
    const bytes = new Uint8Array(n * WIDTHS[dtype]);
    for (let at = 0; at < bytes.length; at += SLICE_NBYTES) {
      const end = Math.min(at + SLICE_NBYTES, bytes.length);
      bytes.set(new Uint8Array(await file.slice(offset + at, offset + end).arrayBuffer()), at);
      progress(end - at);
    }
    const own = dtype === "F32" ? new Float32Array(bytes.buffer) : new Uint16Array(bytes.buffer);
    if (!isFinite32(own, dtype)) throw new FileError(`${name} has NaN or infinity in ${tensor}: the codec would store that tensor exactly, this page cannot.`);
    values.push(own);
  }
  return { name, tensors, exact, values };
}

/** @param {File} file */
async function readHeader(file) {
  const cut = new FileError(`${file.name} is incomplete: copy it again.`);
  if (file.size < 8) throw cut;
  const length = new DataView(await file.slice(0, 8).arrayBuffer()).getBigUint64(0, true);
  if (length > MOST_HEADER) throw new FileError(`${file.name} is no .safetensors file, or a damaged one.`);
  const begin = 8 + Number(length);
  if (file.size < begin) throw cut;
  /** @type {Record<string, { dtype: string, shape: number[], data_offsets: [number, number] }>} */
  let entries;
  try {
    entries = JSON.parse(await file.slice(8, begin).text());
  } catch {
    throw new FileError(`${file.name} is no .safetensors file, or a damaged one.`);
  }
  const all = Object.entries(entries).filter(([name]) => name !== "__metadata__");
  all.sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
  /** @type {Tensor[]} */
  const tensors = [];
  const exact = [];
  let first = 0;
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of all) {
    const n = shape.reduce((product, size) => product * size, 1);
    if (begin + to > file.size) throw cut;
    if (!(dtype in WIDTHS) || n < TINY || STATISTICS.test(name)) {
      exact.push(name);
      continue;
    }
    if (to - from !== n * WIDTHS[dtype]) throw new FileError(`${file.name} is damaged: ${name} has ${to - from} bytes, not those of its shape.`);
    tensors.push({ name, dtype, shape, n, begin: first, offset: begin + from });
    first += n;
  }
  return { tensors, exact };
}

/** Whether all values are finite. @param {Float32Array | Uint16Array} values @param {string} dtype */
function isFinite32(values, dtype) {
  const [words, mask] = dtype === "F32" ? [bitsOfValues(/** @type {Float32Array} */ (values)), 0x7f800000] : [values, dtype === "F16" ? 0x7c00 : 0x7f80];
  for (let i = 0; i < words.length; i++) if ((words[i] & mask) === mask) return false;
  return true;
}

/** Why two files are no series; "" if they are. @param {StateFile} one @param {StateFile} other */
function whyNoSeries(one, other) {
  const of = new Map(other.tensors.map((tensor) => [tensor.name, tensor]));
  const names = `${one.name} and ${other.name} are not of one training`;
  for (const { name, dtype, shape } of one.tensors) {
    const own = of.get(name);
    if (!own) return `${names}: only the first has ${name}.`;
    if (String(own.shape) !== String(shape)) return `${names}: ${name} has the shape ${sizeText(shape)} in the first, ${sizeText(own.shape)} in the second.`;
    if (own.dtype !== dtype) return `${names}: ${name} is ${dtype} in the first, ${own.dtype} in the second.`;
  }
  return other.tensors.length > one.tensors.length ? `${names}: the second has more tensors.` : "";
}

/** A state with its tensors in the order of another one: each writer has its own. @param {StateFile} first @param {StateFile} state @returns {StateFile} */
function inOrderOf({ tensors }, state) {
  const own = new Map(state.tensors.map(({ name }, i) => [name, state.values[i]]));
  return { ...state, tensors, values: tensors.map(({ name }) => /** @type {Float32Array | Uint16Array} */ (own.get(name))) };
}

/** A shape in words. @param {number[]} shape */
const sizeText = (shape) => shape.join(" × ") || "1";

/** @type {Float32Array | null} every float16 */
let halves = null;

/** Every float16 as a float32. */
function floatsOfHalves() {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const [sign, exponent, mantissa] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + mantissa / 1024) : 2 ** -24 * mantissa);
  });
  return halves;
}

/** The weights of a state in float32, all tensors one after another. @param {Pick<StateFile, "tensors" | "values">} state @param {Float32Array} weights memory for them */
function weightsOf({ tensors, values }, weights) {
  const words = bitsOfValues(weights);
  tensors.forEach(({ dtype, n, begin }, i) => {
    const own = values[i];
    if (dtype === "F32") return weights.set(own, begin);
    sumOfParts(n, (from, to) => widenPart(own, dtype === "F16" ? floatsOfHalves() : null, weights, words, begin, from, to));
  });
  return weights;
}

/** Values of 16 bits in float32. @param {ArrayLike<number>} own @param {Float32Array | null} half every float16; null for bfloat16 @param {Float32Array} weights @param {Uint32Array} words their bits @param {number} begin @param {number} from @param {number} to */
function widenPart(own, half, weights, words, begin, from, to) {
  if (half) for (let j = from; j < to; j++) weights[begin + j] = half[own[j]];
  else for (let j = from; j < to; j++) words[begin + j] = own[j] << 16;
  return 0;
}

/** Finite values, rounded to the nearest bfloat16, ties to even, as bits. @param {Float32Array} values */
const roundedToBfloat16 = (values) => Uint16Array.from(bitsOfValues(values), (word) => (word + 0x7fff + ((word >>> 16) & 1)) >>> 16);

const NUMBERED = new Intl.Collator("en", { numeric: true }); // puts 9 before 10

/** The order of file names: step-9 before step-10. @param {{ name: string }} one @param {{ name: string }} other */
const byName = (one, other) => NUMBERED.compare(one.name, other.name);

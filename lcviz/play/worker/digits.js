// The data: scikit-learn's digits, 8 x 8 pixels each. The model sees them interpolated to 28 x 28.

const SIDE = 28; // of an image
const SOURCE_SIDE = 8; // of an image as it is stored
const PIXELS = SIDE * SIDE;
const SOURCE_PIXELS = SOURCE_SIDE * SOURCE_SIDE;
const WHITE = 16; // the largest stored value

/**
 * @typedef {object} Digits
 * @property {Float64Array} pixels 64 of each image, from 0 to 1
 * @property {Uint8Array} classes of each image
 * @property {number} n images
 */

/**
 * Each of 784 pixels is a mean of four of 64: which ones, and the weight of each; as torch's bilinear
 * interpolation without aligned corners.
 */
const FROM = new Uint8Array(4 * PIXELS);
const SHARE = new Float64Array(4 * PIXELS);
for (let i = 0; i < PIXELS; i++) {
  const [row, column] = [Math.floor(i / SIDE), i % SIDE].map((place) => {
    const at = Math.max(((place + 0.5) * SOURCE_SIDE) / SIDE - 0.5, 0);
    const from = Math.floor(at);
    return [{ at: from, share: 1 - (at - from) }, { at: Math.min(from + 1, SOURCE_SIDE - 1), share: at - from }];
  });
  [0, 1, 2, 3].forEach((corner) => {
    const [y, x] = [row[corner >> 1], column[corner & 1]];
    FROM[4 * i + corner] = y.at * SOURCE_SIDE + x.at;
    SHARE[4 * i + corner] = y.share * x.share;
  });
}

/**
 * @param {Uint8Array} bytes of each image its 64 pixels from 0 to 16, then its class
 * @returns {Digits}
 */
function digitsOf(bytes) {
  const n = bytes.length / (SOURCE_PIXELS + 1);
  const [pixels, classes] = [new Float64Array(n * SOURCE_PIXELS), new Uint8Array(n)];
  for (let i = 0; i < n; i++) {
    const begin = i * (SOURCE_PIXELS + 1);
    for (let j = 0; j < SOURCE_PIXELS; j++) pixels[i * SOURCE_PIXELS + j] = bytes[begin + j] / WHITE;
    classes[i] = bytes[begin + SOURCE_PIXELS];
  }
  return { pixels, classes, n };
}

/**
 * An image of 8 x 8 as one of 28 x 28.
 * @param {Float64Array} source 64 values
 * @param {Float64Array} image 784 values, replaced
 */
function enlarge(source, image) {
  for (let i = 0, at = 0; i < PIXELS; i++, at += 4) {
    image[i] =
      SHARE[at] * source[FROM[at]] +
      SHARE[at + 1] * source[FROM[at + 1]] +
      SHARE[at + 2] * source[FROM[at + 2]] +
      SHARE[at + 3] * source[FROM[at + 3]];
  }
}

/**
 * The transpose of `enlarge`: what 784 weights make of an image, as 64 weights of its source.
 * @param {Float32Array} weights
 * @param {number} begin the first of the 784
 * @param {Float64Array} source 64 values, replaced
 */
function condense(weights, begin, source) {
  source.fill(0);
  for (let i = 0; i < 4 * PIXELS; i++) source[FROM[i]] += SHARE[i] * weights[begin + (i >> 2)];
}

/** The bytes of an array as base64. @param {Uint8Array | Uint16Array | Float32Array} array */
function base64(array) {
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const parts = [];
  for (let i = 0; i < bytes.length; i += 8192) parts.push(String.fromCharCode.apply(null, /** @type {any} */ (bytes.subarray(i, i + 8192))));
  return btoa(parts.join(""));
}

// What a restart would load, as codec.Tracker; and what one checkpoint makes of it.

/**
 * How checkpoints are saved.
 * @typedef {object} Setting
 * @property {number | null} x bits of priority promotion; null for all buckets
 * @property {number | null} most buckets that are kept instead of those of x; null for those of x
 * @property {number | null} budget share of float32's bytes; then equal steps take the place of buckets
 * @property {number | null} distance share of a change that may be left; likewise
 * @property {Coder} coder
 * @property {boolean} carries whether what a checkpoint leaves out stays in the next one's change
 */

/**
 * One checkpoint.
 * @typedef {object} Saved
 * @property {Float32Array} delta what it encodes
 * @property {Quantized} quantized
 * @property {EncodedCodes} encoded
 * @property {number} changed sum of squares of delta
 */

/** The track. Each checkpoint moves it towards the weights. What it then lacks comes with the next one. */
class Tracker {
  /**
   * @param {Float32Array} weights those of the first checkpoint, which is exact
   * @param {Setting} setting
   * @param {Matrix[]} matrices rows and columns of the tensors
   * @param {number} headerNbytes of a record, which a budget pays for, too
   */
  constructor(weights, setting, matrices, headerNbytes = 0) {
    this.track = weights.slice();
    this.setting = setting;
    this.matrices = matrices;
    this.headerNbytes = headerNbytes;
    this.leastBudget = 0; // that a change would have needed where the setting's held none
    /** @type {CodeTable | null} */
    this.table = null; // the last one that was written
  }

  /**
   * Save a checkpoint. The track moves.
   * @param {Float32Array} weights
   * @param {Float32Array | null} last those of the checkpoint before; only needed if what is left out is lost
   * @returns {Saved}
   */
  step(weights, last) {
    const { track } = this;
    const { delta, changed } = changeOf(weights, track, this.setting.carries ? null : last);
    const quantized = this.quantized({ delta, before: track, changed });
    const encoded = encodeCodes(quantized, this.stage);
    if (encoded.table) this.table = encoded.table;
    move(track, quantized);
    return { delta, quantized, encoded, changed };
  }

  /** @returns {Stage} */
  get stage() {
    return { coder: this.setting.coder, matrices: this.matrices, last: this.table };
  }

  /** @param {Changing} changing @returns {Quantized} */
  quantized(changing) {
    const { x, most, budget, distance, coder } = this.setting;
    if (distance !== null) return stepsLeaving(changing, distance, coder);
    if (budget === null) return quantize(changing.delta, most ?? promotedBy(x));
    const fitted = stepsWithin(changing, budget * 4 * changing.delta.length - this.headerNbytes, this.stage);
    if (fitted.lacking) this.leastBudget = Math.max(this.leastBudget, advisedBudget(fitted.lacking + this.headerNbytes, changing.delta.length));
    return fitted;
  }
}

/**
 * What a checkpoint encodes, and its sum of squares.
 * @param {Float32Array} weights
 * @param {Float32Array} track
 * @param {Float32Array | null} last the weights before, if what was left out is lost
 */
function changeOf(weights, track, last) {
  const live = last ? track.map((value, i) => value + Math.fround(weights[i] - last[i])) : weights;
  const delta = new Float32Array(live.length);
  let changed = 0;
  for (let i = 0; i < delta.length; i++) {
    const change = Math.fround(live[i] - track[i]);
    delta[i] = change;
    changed += change * change;
  }
  return { delta, changed };
}

/** Move values by the levels of their codes. Code 0 is skipped: adding 0 would turn -0 into 0. @param {Float32Array} values @param {Quantized} quantized */
function move(values, { codes, levels }) {
  for (let i = 0; i < values.length; i++) if (codes[i] !== 0) values[i] += levels[codes[i]];
}

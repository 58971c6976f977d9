// What a restart would load, as codec.Tracker; and what one checkpoint makes of it.

/**
 * How checkpoints are saved.
 * @typedef {object} Setting
 * @property {number | null} x bits of priority promotion; null for all buckets
 * @property {number | null} most buckets that are kept instead of those of x; null for those of x
 * @property {number | null} budget share of float32's bytes; then equal steps take the place of buckets
 * @property {Coder} coder
 * @property {boolean} carries whether what a checkpoint leaves out stays in the next one's change
 */

/**
 * One checkpoint.
 * @typedef {object} Saved
 * @property {Float32Array} before the track before it
 * @property {Float32Array} delta what it encodes
 * @property {Quantized} quantized
 * @property {EncodedCodes} encoded
 * @property {Float32Array} after the track after it
 */

/** The track. Each checkpoint moves it towards the weights. What it then lacks comes with the next one. */
class Tracker {
  /**
   * @param {Float32Array} weights those of the first checkpoint, which is exact
   * @param {Setting} setting
   * @param {number} headerNbytes of a record, which a budget pays for, too
   */
  constructor(weights, setting, headerNbytes = 0) {
    this.track = weights.slice();
    this.setting = setting;
    this.headerNbytes = headerNbytes;
    this.last = weights; // those of the checkpoint before
    this.leastBudget = 0; // that a change would have needed where the setting's held none
    /** @type {CodeTable | null} */
    this.table = null; // the last one that was written
  }

  /**
   * Save a checkpoint. The track moves.
   * @param {Float32Array} weights they must not change afterwards
   * @returns {Saved}
   */
  step(weights) {
    const { track: before, setting, last } = this;
    const live = setting.carries ? weights : before.map((value, i) => value + Math.fround(weights[i] - last[i]));
    const delta = live.map((value, i) => value - before[i]);
    const quantized = this.quantized(delta);
    const encoded = encodeCodes(quantized, setting.coder, this.table);
    if (encoded.table) this.table = encoded.table;
    const { codes, levels } = quantized;
    const after = before.map((value, i) => (codes[i] > 0 ? value + levels[codes[i]] : value)); // adding 0 would turn -0 into 0
    this.track = after;
    this.last = weights;
    return { before, delta, quantized, encoded, after };
  }

  /** @param {Float32Array} delta */
  quantized(delta) {
    const { x, most, budget, coder } = this.setting;
    if (budget === null) return quantize(delta, most ?? promotedBy(x));
    const fitted = fitSteps(delta, budget * 4 * delta.length - this.headerNbytes, coder, this.table);
    if (fitted.size === 0 && delta.some((value) => value !== 0))
      this.leastBudget = Math.max(this.leastBudget, advisedBudget(delta, this.headerNbytes, coder, this.table));
    return fitted;
  }
}

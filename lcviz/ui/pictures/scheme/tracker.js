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
 * @property {number} left the same of what the track still lacks
 */

/** The track. Each checkpoint moves it towards the weights. What it then lacks comes with the next one. */
class Tracker {
  /**
   * @param {Float32Array} weights those of the first checkpoint, which is exact: they become the track
   * @param {Setting} setting
   * @param {Matrix[]} matrices rows and columns of the tensors
   * @param {number} headerNbytes of a record, which a budget pays for, too
   */
  constructor(weights, setting, matrices, headerNbytes = 0) {
    this.track = weights;
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
   * @param {{ delta?: Float32Array, codes?: Quantized["codes"] }} [memory] for what is returned
   * @returns {Saved}
   */
  step(weights, last, memory = {}) {
    const { track } = this;
    const { delta, changed } = changeOf(weights, track, this.setting.carries ? null : last, memory.delta);
    const quantized = this.quantized({ delta, before: track, changed, codes: memory.codes });
    const encoded = encodeCodes(quantized, this.stage);
    if (encoded.table) this.table = encoded.table;
    const left = move(track, quantized, weights);
    return { delta, quantized, encoded, changed, left };
  }

  /** @returns {Stage} */
  get stage() {
    return { coder: this.setting.coder, matrices: this.matrices, last: this.table };
  }

  /** @param {Changing} changing @returns {Quantized} */
  quantized(changing) {
    const { x, most, budget, distance, coder } = this.setting;
    if (distance !== null) return stepsLeaving(changing, distance, coder);
    if (budget === null) return quantize(changing.delta, most ?? promotedBy(x), changing.codes);
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
 * @param {Float32Array} [delta] memory for the change; it may be that of `last`
 */
function changeOf(weights, track, last, delta = new Float32Array(weights.length)) {
  const changed = sumOfParts(delta.length, (from, to) => {
    if (last) for (let i = from; i < to; i++) delta[i] = track[i] + Math.fround(weights[i] - last[i]);
    return changeOfPart(last ? delta : weights, track, delta, from, to);
  });
  return { delta, changed };
}

/** @param {Float32Array} weights @param {Float32Array} track @param {Float32Array} delta their difference is written here @param {number} from @param {number} to */
function changeOfPart(weights, track, delta, from, to) {
  let changed = 0;
  for (let i = from; i < to; i++) {
    const change = Math.fround(weights[i] - track[i]);
    delta[i] = change;
    changed += change * change;
  }
  return changed;
}

/**
 * Move values by the levels of their codes.
 * @param {Float32Array} values
 * @param {Quantized} quantized
 * @param {Float32Array} [aim]
 * @returns {number} the sum of squares of what is left to the aim
 */
function move(values, { codes, levels }, aim = values) {
  const moves = levels.slice();
  moves[0] = -0; // adding 0 would turn -0 into 0
  return sumOfParts(values.length, (from, to) => movePart(values, codes, moves, aim, from, to));
}

/** @param {Float32Array} values @param {Quantized["codes"]} codes @param {Float32Array} moves @param {Float32Array} aim @param {number} from @param {number} to */
function movePart(values, codes, moves, aim, from, to) {
  let left = 0;
  for (let i = from; i < to; i++) {
    values[i] += moves[codes[i]];
    const rest = aim[i] - values[i];
    left += rest * rest;
  }
  return left;
}

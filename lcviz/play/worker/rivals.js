// What LC is compared with: whole checkpoints, SCAR and TOPN, as lcviz.lab.recovery.baselines.

const NUMBER_NBYTES = 2; // of a block's number: there are fewer than 65,536

/** @typedef {{ begin: number, stride: number, n: number }} Block n parameters, stride apart */

/** SCAR's blocks: the weights of one pixel, and each bias (Qiao et al., ICML 2019). */
const PIXEL_BLOCKS = [
  ...Array.from({ length: PIXELS }, (_, i) => ({ begin: i, stride: PIXELS, n: CLASSES })),
  ...Array.from({ length: CLASSES }, (_, i) => ({ begin: N_WEIGHTS + i, stride: 1, n: 1 })),
];
/** TOPN's blocks: single parameters. */
const SINGLE_BLOCKS = Array.from({ length: N }, (_, i) => ({ begin: i, stride: 1, n: 1 }));

/** Saves the blocks that are farthest from their last saved values, as many as fit. */
class Prioritized {
  /**
   * @param {Float32Array} weights those of the base
   * @param {Block[]} blocks
   * @param {number} nbytes that a checkpoint may take
   */
  constructor(weights, blocks, nbytes) {
    this.track = weights.slice();
    this.blocks = blocks;
    this.nbytes = nbytes;
    this.spent = 0; // in the last checkpoint
  }

  /** @param {Float32Array} weights */
  step(weights) {
    const { track, blocks } = this;
    const distances = blocks.map(({ begin, stride, n }) => {
      let squares = 0;
      for (let i = 0, at = begin; i < n; i++, at += stride) squares += (weights[at] - track[at]) ** 2;
      return squares;
    });
    const order = [...distances.keys()].filter((i) => distances[i] > 0).sort((a, b) => distances[b] - distances[a] || a - b);
    this.spent = 0;
    for (const block of order) {
      const { begin, stride, n } = blocks[block];
      const cost = 4 * n + NUMBER_NBYTES;
      if (this.spent + cost > this.nbytes) continue;
      this.spent += cost;
      for (let i = 0, at = begin; i < n; i++, at += stride) track[at] = weights[at];
    }
  }
}

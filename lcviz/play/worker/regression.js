// The model: logistic regression, ten templates of 784 weights and a bias each, trained by SGD. The
// same as demo_models.logistic_regression, with the batches of demo_models.task.

const CLASSES = 10;
const N_WEIGHTS = CLASSES * PIXELS;
const N = N_WEIGHTS + CLASSES; // parameters: all weights, then the biases
/** Rows and columns of the tensors. @type {Matrix[]} */
const MATRICES = [[CLASSES, PIXELS], [CLASSES, 1]];
const BATCH = 256;
const LEARNING_RATE = 0.1;

/**
 * How good a model is on some digits. loss: mean cross-entropy in nats. accuracy: from 0 to 1.
 * @typedef {{ loss: number, accuracy: number }} Measured
 */

/**
 * The parameters before training.
 * @param {number} seed
 */
function firstWeights(seed) {
  const parameters = new Float32Array(N);
  parameters.set(normalNumbers(seed, N_WEIGHTS, 1 / SIDE));
  return parameters;
}

/**
 * The same model as one that reads images of 8 x 8: ten weights for each of 64 pixels, then the biases. An image of
 * 28 x 28 is linear in those pixels, so this takes a twelfth of the products.
 * @param {Float32Array} parameters
 */
function condensed(parameters) {
  const [small, source] = [new Float64Array(CLASSES * (SOURCE_PIXELS + 1)), new Float64Array(SOURCE_PIXELS)];
  for (let c = 0; c < CLASSES; c++) {
    condense(parameters, c * PIXELS, source);
    for (let i = 0; i < SOURCE_PIXELS; i++) small[i * CLASSES + c] = source[i];
    small[SOURCE_PIXELS * CLASSES + c] = parameters[N_WEIGHTS + c];
  }
  return small;
}

/**
 * The scores of an image.
 * @param {Float64Array} small from `condensed`
 * @param {Float64Array} pixels
 * @param {number} image
 * @param {Float64Array} scores ten, replaced
 */
function scoresOf(small, pixels, image, scores) {
  for (let c = 0; c < CLASSES; c++) scores[c] = small[SOURCE_PIXELS * CLASSES + c];
  for (let i = 0, at = 0; i < SOURCE_PIXELS; i++, at += CLASSES) {
    const pixel = pixels[image * SOURCE_PIXELS + i];
    if (pixel === 0) continue; // half of them are
    for (let c = 0; c < CLASSES; c++) scores[c] += small[at + c] * pixel;
  }
}

/**
 * Turn scores into probabilities. Returns the loss if this class is right.
 * @param {Float64Array} scores ten, replaced
 * @param {number} right
 */
function softmax(scores, right) {
  let largest = scores[0];
  for (let c = 1; c < CLASSES; c++) largest = Math.max(largest, scores[c]);
  const score = scores[right] - largest;
  let sum = 0;
  for (let c = 0; c < CLASSES; c++) sum += scores[c] = Math.exp(scores[c] - largest);
  for (let c = 0; c < CLASSES; c++) scores[c] /= sum;
  return Math.log(sum) - score;
}

/** @param {Float64Array} scores */
function bestOf(scores) {
  let best = 0;
  for (let c = 1; c < CLASSES; c++) if (scores[c] > scores[best]) best = c;
  return best;
}

/**
 * Measure a model on the first digits.
 * @param {Float32Array} parameters
 * @param {Digits} digits
 * @param {number} n
 * @returns {Measured}
 */
function measure(parameters, digits, n) {
  const [small, scores] = [condensed(parameters), new Float64Array(CLASSES)];
  let [loss, correct] = [0, 0];
  for (let i = 0; i < n; i++) {
    scoresOf(small, digits.pixels, i, scores);
    if (bestOf(scores) === digits.classes[i]) correct += 1;
    loss += softmax(scores, digits.classes[i]);
  }
  return { loss: loss / n, accuracy: correct / n };
}

/**
 * The classes that a model predicts for the first digits.
 * @param {Float32Array} parameters
 * @param {Digits} digits
 * @param {number} n
 */
function predict(parameters, digits, n) {
  const [small, scores] = [condensed(parameters), new Float64Array(CLASSES)];
  return Array.from({ length: n }, (_, i) => {
    scoresOf(small, digits.pixels, i, scores);
    return bestOf(scores);
  });
}

/** A model in training. Its parameters change in place. */
class Training {
  /**
   * @param {Digits} digits
   * @param {number} seed decides the first parameters and the batches
   */
  constructor(digits, seed) {
    this.digits = digits;
    this.seed = seed;
    this.parameters = firstWeights(seed);
    this.epoch = { number: -1, order: new Uint32Array() };
    this.source = new Float64Array(SOURCE_PIXELS);
    this.image = new Float64Array(PIXELS);
  }

  /**
   * Which digits an iteration trains on.
   * @param {number} iteration from 1 on
   */
  batch(iteration) {
    const batches = Math.floor(this.digits.n / BATCH);
    const number = Math.floor((iteration - 1) / batches);
    if (this.epoch.number !== number) {
      this.epoch = { number, order: new Pcg64([this.seed, number]).permutation(this.digits.n) };
    }
    const begin = ((iteration - 1) % batches) * BATCH;
    return this.epoch.order.subarray(begin, begin + BATCH);
  }

  /**
   * Take one step of SGD. Returns the mean loss of the batch before it.
   * @param {number} iteration
   */
  iterate(iteration) {
    const { digits, parameters } = this;
    const [small, scores] = [condensed(parameters), new Float64Array(CLASSES)];
    const gradient = new Float64Array(small.length);
    let loss = 0;
    for (const example of this.batch(iteration)) {
      const right = digits.classes[example];
      scoresOf(small, digits.pixels, example, scores);
      loss += softmax(scores, right);
      scores[right] -= 1; // the gradient of the loss by each score
      for (let i = 0, at = 0; i < SOURCE_PIXELS; i++, at += CLASSES) {
        const pixel = digits.pixels[example * SOURCE_PIXELS + i];
        if (pixel === 0) continue;
        for (let c = 0; c < CLASSES; c++) gradient[at + c] += scores[c] * pixel;
      }
      for (let c = 0; c < CLASSES; c++) gradient[SOURCE_PIXELS * CLASSES + c] += scores[c];
    }
    this.descend(gradient);
    return loss / BATCH;
  }

  /** Move the parameters down. @param {Float64Array} gradient summed over a batch, in the order of `condensed` */
  descend(gradient) {
    const { parameters, source, image } = this;
    for (let c = 0; c < CLASSES; c++) {
      for (let i = 0; i < SOURCE_PIXELS; i++) source[i] = gradient[i * CLASSES + c];
      enlarge(source, image);
      for (let i = 0; i < PIXELS; i++) parameters[c * PIXELS + i] -= (LEARNING_RATE * image[i]) / BATCH;
      parameters[N_WEIGHTS + c] -= (LEARNING_RATE * gradient[SOURCE_PIXELS * CLASSES + c]) / BATCH;
    }
  }
}

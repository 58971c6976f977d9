// Files of one's own in the place of a training: what a setting makes of them.

/** The codec's default, with the paper's x for those who choose buckets. @type {Setting} */
const FILES_SETTING = { x: 2, most: null, budget: null, distance: 0.3, coder: "runlength", carries: true };
const EXAMPLE_STEPS = [100, 200, 300, 400]; // of the built-in series
const MOST_PIXELS = [96, 240]; // rows and columns of a picture of a tensor
const MOST_RATIO = 6; // of columns to rows, and the other way round, of a picture
const MOST_AT_ONCE = 2 ** 19; // values, up to which one answer has everything
const PATIENCE = 50; // milliseconds that a message waits at most for a size
const MOST_TENSORS = 12; // that are listed

/** The files that a visitor has opened, and what is shown of them. */
class FilesPlayer {
  /**
   * @param {CoderFacts[]} coders
   * @param {(answer: object) => void} post
   */
  constructor(coders, post) {
    this.coders = coders;
    this.post = post;
    /** @type {Setting} */
    this.setting = { ...FILES_SETTING };
    /** @type {Series | null} */
    this.series = null;
    this.isExample = true;
    this.problem = ""; // why the last files are not shown
    this.progress = ""; // of what takes long
    /** @type {number | null} the step that is shown, from 1 on; null for the last */
    this.step = null;
    this.tensor = 0;
    /** @type {number | null} */
    this.followed = null;
    this.byWorth = false;
    /** @type {number | null} a budget that took the place of one that held no change in some step */
    this.raised = null;
    this.messages = 0; // from the page, without "drawn"
    this.working = false;
    this.isDue = false; // whether it will go on once messages have been read
    /** @type {{ checkpoint: ShownStep, dissected: Dissected, sizes?: Record<string, number>, place?: Place } | null} what was taken apart last */
    this.dissected = null;
  }

  /** The states of a small training: there is something to see before a file is chosen. @param {Digits} train */
  openExample(train) {
    const training = new Training(train, 0);
    /** @type {Tensor[]} */
    const tensors = [
      { name: TENSOR, dtype: "BF16", shape: [CLASSES, PIXELS], n: N_WEIGHTS, begin: 0, offset: 0 },
      { name: "linear.bias", dtype: "F32", shape: [CLASSES], n: CLASSES, begin: N_WEIGHTS, offset: 0 },
    ];
    const states = [];
    for (let t = 1; t <= Math.max(...EXAMPLE_STEPS); t++) {
      training.iterate(t);
      const values = [roundedToBfloat16(training.parameters.subarray(0, N_WEIGHTS)), training.parameters.slice(N_WEIGHTS)];
      if (EXAMPLE_STEPS.includes(t)) states.push({ name: `step-${t}.safetensors`, tensors, exact: [], values });
    }
    this.series = new Series(states);
  }

  /** Read files; what is shown stays if they are no series. @param {File[]} files */
  async open(files) {
    try {
      if (files.length < 2) throw new FileError("Choose two files or more: a checkpoint is what changes from one to the next.");
      const whole = files.reduce((sum, { size }) => sum + size, 0);
      let read = 0;
      /** @type {StateFile[]} */
      const states = [];
      for (const file of [...files].sort(byName)) {
        const state = await readState(file, (nbytes) => this.report(`Reading ${nbytesText((read += nbytes))} of ${nbytesText(whole)} …`));
        const why = whyNoSeries(states[0] ?? state, state);
        if (why) throw new FileError(why);
        states.push(inOrderOf(states[0] ?? state, state));
      }
      this.series = new Series(states);
      Object.assign(this, { isExample: false, problem: "", step: null, tensor: 0, followed: null });
    } catch (error) {
      if (error instanceof FileError) this.problem = error.message;
      else if (error instanceof RangeError) this.problem = `These files are too large for this browser (${error.message}): take fewer, or smaller ones.`;
      else throw error;
    }
    this.progress = "";
    this.series?.use(this.setting);
  }

  /** @param {string} text */
  report(text) {
    this.progress = text;
    this.answer();
  }

  /** @param {Partial<Setting>} change */
  use(change) {
    this.problem = "";
    Object.assign(this.setting, change);
    this.series?.use(this.setting);
  }

  /** What a picture has sent. @param {string} event @param {any} value */
  heard(event, value) {
    const shown = this.view();
    if (!shown) return;
    const { checkpoint } = shown;
    const { map, shape, begin, n } = this.place;
    const follow = (/** @type {number | null} */ weight) => weight !== null && (this.followed = weight);
    const largest = () => follow(largestOf(event, value, checkpoint, (i) => i >= begin && i < begin + n));
    /** @type {Record<string, () => void>} */
    const acts = {
      pixel: () => follow(map[value[0] * shape[1] + value[1]] ?? null),
      word: () => follow(value),
      bucket: largest,
      bar: largest,
      cut: () => this.use(cutChosen(value, checkpoint.delta)),
      bits: () => this.use(value === "steps" ? { distance: FILES_SETTING.distance, budget: null, most: null } : bitsOfButton(value)),
      coder: () => this.use({ coder: value }),
      view: () => (this.byWorth = value === "error"),
      step: () => (this.step = Math.max(value - 1, 1)), // the files are counted from 1 on
      tensor: () => {
        this.tensor = Math.max(shown.tensors.findIndex(({ name }) => name === value), 0);
        this.followed = null;
      },
    };
    acts[event]?.();
  }

  /** What the pictures are drawn from; null while not all is saved. */
  view() {
    const { series, setting, shown: step } = this;
    if (!series?.isSaved) return null;
    const checkpoint = series.shown(step - 1);
    if (this.dissected?.checkpoint !== checkpoint) {
      const sizes = series.n > MOST_AT_ONCE ? { [setting.coder]: checkpoint.encoded.coded } : undefined;
      this.dissected = { checkpoint, dissected: dissect(checkpoint), sizes };
    }
    const { dissected, sizes } = this.dissected;
    const tensor = series.tensors[this.tensor];
    this.followed ??= firstWeight(checkpoint, tensor.begin, tensor.begin + tensor.n);
    return {
      series,
      tensors: series.tensors,
      checkpoint,
      setting,
      matrices: series.matrices,
      dissected,
      nKept: dissected.nKept,
      followed: this.followed,
      pixelOf: (/** @type {number} */ at) => pixelIn(this.place, tensor, at),
      isTrial: false,
      byWorth: this.byWorth,
      worth: null,
      raised: this.raised === setting.budget ? this.raised : null,
      playing: false,
      coders: this.coders,
      sizes,
    };
  }

  /** The tensor that is shown, as a picture. @returns {Place} */
  get place() {
    const { tensors } = /** @type {Series} */ (this.series);
    const taken = /** @type {NonNullable<FilesPlayer["dissected"]>} */ (this.dissected);
    const tensor = tensors[this.tensor];
    if (taken.place?.tensor !== tensor.name) taken.place = placeOf(tensor, tensors, taken.checkpoint.delta);
    return taken.place;
  }

  /** Send the page what there is. @param {any} pictures */
  answer(pictures = null) {
    const { series } = this;
    this.post({
      pictures,
      state: {
        files: series?.states.map(({ name }) => name) ?? [],
        isExample: this.isExample,
        exact: series?.states[0].exact.length ?? 0,
        shown: series ? this.shown : 0,
        step: this.step,
        tensor: series?.tensors[this.tensor].name,
        setting: this.setting,
        problem: this.problem,
        progress: this.progress,
        heard: this.messages,
        isAtRest: !this.working && !this.progress,
      },
    });
  }

  /** @param {NonNullable<ReturnType<FilesPlayer["view"]>>} view */
  pictures(view) {
    return {
      headline: filesHeadline(view.series, view.checkpoint.step),
      weights: weightsFacts(view, this.place),
      buckets: view.checkpoint.quantized.uniform ? stepsFacts(view) : bucketsFacts(view),
      bits: bitsFacts(view),
      weight: filesWeight(view),
      loss: restFacts(view.series, view.checkpoint.step),
      examples: tensorsFacts(view),
      gaps: gapsFacts(view.series, view.checkpoint.step),
    };
  }

  /** Do the next piece of work, and show what has changed: save a state, or measure another coder. */
  work() {
    const { series } = this;
    if (!series) return;
    const isLarge = series.n > MOST_AT_ONCE;
    this.working = true;
    if (!series.isSaved) {
      this.advance(series);
      if (!series.isSaved && isLarge && this.setting.coder === "context") this.report(`Saving file ${series.steps.length + 2} of ${series.length + 1} …`);
      // Bytes and distance come first: the other pictures take as long again.
      if (series.isSaved && isLarge) this.answer({ headline: filesHeadline(series, this.shown), loss: restFacts(series, this.shown) });
      return this.goOn();
    }
    const view = /** @type {FilesView} */ (this.view());
    const measure = this.unmeasured(view);
    this.progress = "";
    this.working = Boolean(measure);
    this.answer(this.pictures(view));
    if (measure) this.goOn(measure);
  }

  /** Save the next state. If the setting cannot, begin again with x = 2. @param {Series} series */
  advance(series) {
    try {
      series.advance();
    } catch (error) {
      if (!(error instanceof RangeError) || !series.isInSteps) throw error;
      const { name } = series.states[series.steps.length + 1];
      this.use(bitsOfButton("2"));
      this.problem = `This distance or budget does not work for ${name}: no equal steps express its changes. The page shows x = 2 instead.`;
    }
    const { leastBudget } = series.tracker;
    if (leastBudget) this.use({ budget: (this.raised = leastBudget) });
  }

  /** What measures the next size that is shown and not known yet; null if all are. @param {FilesView} view @returns {(() => void | Promise<void>) | null} */
  unmeasured({ series, checkpoint, matrices, setting, sizes }) {
    const coder = sizes && this.coders.find(({ name }) => !(name in sizes));
    if (sizes && coder) {
      return async () => {
        // A context code takes seconds: another setting does not wait for it.
        const written = () => contextStreams(checkpoint.quantized, matrices, performance.now() + PATIENCE)?.length ?? 0;
        for (let [before, n] = [-1, 0]; coder.name === "context" && n > before; [before, n] = [n, written()]) {
          await new Promise((go) => setTimeout(go, 0));
          if (this.series?.inMemory !== checkpoint) return;
        }
        sizes[coder.name] = sizeWith(/** @type {Coder} */ (coder.name), { ...checkpoint, matrices }, setting);
      };
    }
    const { step } = checkpoint;
    const [exact, before, after] = [series.exactOf(step), series.states[step - 1], series.states[step]];
    if (exact.residual === null) return () => void (exact.residual = residualsNbytes(before, after));
    if (exact.deflated === null) return async () => void (exact.deflated = await deflatedNbytes(before, after));
    return null;
  }

  /** Work on once messages have been read. @param {() => void | Promise<void>} [before] */
  goOn(before) {
    if (this.isDue) return;
    this.isDue = true;
    later(async () => {
      this.isDue = false;
      await before?.();
      this.work();
    }, 0);
  }

  /** The step that is shown, from 1 on. */
  get shown() {
    const { length } = /** @type {Series} */ (this.series);
    return Math.min(this.step ?? length, length);
  }
}

/** Rows and columns of a tensor's picture before it is made smaller: those of the matrix, or all values in rows of another length where it is far from a square. @param {Tensor} tensor */
function rowsAndColumns({ shape, n }) {
  const columns = shape.length > 1 ? n / shape[0] : n;
  const ratio = (columns * columns) / n;
  const own = ratio > MOST_RATIO || ratio < 1 / MOST_RATIO ? Math.ceil(Math.sqrt(2 * n)) : columns;
  return [Math.ceil(n / own), own];
}

/** A tensor as a picture: of many values, each pixel shows the one that changes most. @param {Tensor} tensor @param {Tensor[]} tensors @param {Float32Array} delta @returns {Place} */
function placeOf(tensor, tensors, delta) {
  const { name, shape, n, begin } = tensor;
  const [rows, columns] = rowsAndColumns(tensor);
  const [high, wide] = [Math.min(rows, MOST_PIXELS[0]), Math.min(columns, MOST_PIXELS[1])];
  const map = new Int32Array(high * wide).fill(-1);
  for (let i = 0, row = 0, column = 0; i < n; i++) {
    const at = Math.floor((row * high) / rows) * wide + Math.floor((column * wide) / columns);
    if (map[at] < 0 || Math.abs(delta[begin + i]) > Math.abs(delta[map[at]])) map[at] = begin + i;
    if (++column === columns) [row, column] = [row + 1, 0];
  }
  return { tensor: name, size: sizeText(shape), tensors: tensors.map((own) => own.name), shape: [high, wide], map, begin, n };
}

/** The pixel of a weight; null if it is in another tensor. @param {Place} place @param {Tensor} tensor @param {number} at @returns {[number, number] | null} */
function pixelIn({ shape: [high, wide] }, tensor, at) {
  const { begin, n } = tensor;
  if (at < begin || at >= begin + n) return null;
  const [rows, columns] = rowsAndColumns(tensor);
  const [row, column] = [Math.floor((at - begin) / columns), (at - begin) % columns];
  return [Math.floor((row * high) / rows), Math.floor((column * wide) / columns)];
}

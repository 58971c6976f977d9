// A recorded chain in the place of the worker: its facts were collected when the page was made.

/** Answers as the worker does, from pictures by step. */
class RecordedRun {
  /**
   * @param {string} text base64 of deflated JSON: { lines, steps }. lines: place -> points that all steps
   * share. steps: [{ step, pictures }], by rising step
   * @param {(answer: object) => void} answer
   */
  constructor(text, answer) {
    this.answer = answer;
    this.heard = 0; // messages, but "drawn"
    this.step = null;
    this.view = "values";
    this.chain = unpackedJson(text);
    this.chain.catch((error) => answer({ failed: String(error) }));
  }

  /** What the page or a picture says: only steps and views can be chosen. @param {string} name @param {any[]} values */
  async hear(name, ...values) {
    if (name === "drawn") return;
    this.heard += 1;
    if (name === "open") this.step = values[0].step;
    else if (name === "step") [this.step] = values;
    else if (name === "picture" && values[0] === "step") [, this.step] = values;
    else if (name === "picture" && values[0] === "view") [, this.view] = values;
    const { lines, steps } = await this.chain;
    const wanted = this.step ?? Infinity;
    const shown = steps.findLast(({ step }) => step <= wanted) ?? steps[0];
    const { buckets, loss, weight } = shown.pictures;
    this.answer({
      pictures: {
        ...shown.pictures,
        buckets: { ...buckets, view: this.view },
        loss: { ...loss, sizes: lines.loss },
        weight: { ...weight, restored: lines.weight },
      },
      state: { recorded: steps.map(({ step }) => step), step: this.step, shown: shown.step, heard: this.heard, isAtRest: true },
    });
  }
}

/** @param {string} text base64 of deflated JSON */
async function unpackedJson(text) {
  const stream = new Blob([unpacked(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).json();
}

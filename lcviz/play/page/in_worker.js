// What computes in a worker of its own: a training, or files of a visitor.

class InWorker {
  /** @param {(data: any, from: InWorker) => void} answer */
  constructor(answer) {
    const url = URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }));
    this.worker = new Worker(url);
    this.worker.onerror = (event) => answer({ failed: event.message }, this);
    this.worker.onmessage = ({ data }) => answer(data, this);
    closing.signal.addEventListener("abort", () => (this.worker.terminate(), URL.revokeObjectURL(url)));
  }

  /** What the page or a picture says. @param {any[]} message */
  hear(...message) {
    this.worker.postMessage(message);
  }
}

// A run on the server in the place of the worker: Python collects its facts.

/** Passes on what the page and its pictures say. The dashboard answers. */
class ServedRun {
  /** @param {(answer: object) => void} answer */
  constructor(answer) {
    this.answer = answer;
    this.heard = 0; // messages, but "drawn"
  }

  /** @param {string} name @param {any[]} values */
  hear(name, ...values) {
    if (name === "drawn") return;
    this.heard += 1;
    if (name === "open") return;
    const [event, value] = name === "picture" ? values : [name, values[0]];
    HOST.send(event, value ?? 0); // a component sends no null: step 0 is the newest
  }

  /** @param {{ pictures: any, state: any }} served */
  show({ pictures, state }) {
    this.answer({ pictures, state: { ...state, heard: this.heard, isAtRest: true } });
  }
}

// The first minute: five gestures, each on a picture that answers. It can be skipped.

const GESTURES = [
  {
    ask: "Drag the cut in picture 2 to the left, until one slot is left. Or press 1 beside x.",
    on: "buckets",
    done: ({ setting }) => setting.budget === null && (setting.most ?? (setting.x === null ? 99 : 2 ** setting.x - 1)) <= 1,
    told: "Every checkpoint now keeps one bucket of changes. Look at 5: the restored model misreads.",
  },
  {
    ask: "Move the step slider to the right, or click late on the loss curve in 4.",
    on: "loss",
    done: ({ shown }) => shown >= 200,
    told: "It reads again: what one checkpoint left out came with later ones.",
  },
  {
    ask: "Switch off “Keep what is dropped for next time”.",
    on: "keep",
    done: ({ setting }) => !setting.carries,
    told: "Now it never recovers: what a checkpoint leaves out is lost for good.",
  },
  {
    ask: "Switch it on again, then click a pixel in picture 1.",
    on: "weights",
    done: ({ setting, followed }, began) => setting.carries && followed !== began.followed,
    told: "One weight, everywhere: its bar in 2, its code word in 3, its staircase below.",
  },
  {
    ask: "Press “Kill it now”, then “Race back”.",
    on: "kill",
    done: ({ raced }) => raced,
    told: "A crash costs the iterations until the loss is back. Compare the methods at equal bytes.",
  },
];
const SEEN = "lcviz-guide"; // in the browser's storage

/** Show the guide in a place, from its first gesture on. */
class Guide {
  /** @param {HTMLElement} place @param {(name: string) => HTMLElement | null} find an element by the name of a picture or a control */
  constructor(place, find) {
    [this.place, this.find] = [place, find];
    this.at = -1; // the gesture that is asked for
    place.querySelector("[data-guide=skip]").onclick = () => this.end();
  }

  begin() {
    this.at = 0;
    this.began = null;
    this.said = "One minute, five gestures.";
    this.show();
  }

  end() {
    this.at = -1;
    remember(SEEN);
    this.show();
  }

  /** Go on if the gesture has been made. @param {any} state of the worker */
  hear(state) {
    if (this.at < 0 || this.at >= GESTURES.length || state.saved < state.states) return;
    this.began ??= state;
    if (!GESTURES[this.at].done(state, this.began)) return;
    this.said = GESTURES[this.at].told;
    this.at += 1;
    this.began = state;
    if (this.at === GESTURES.length) remember(SEEN);
    this.show();
  }

  show() {
    const { place, at } = this;
    place.hidden = at < 0;
    for (const marked of document.querySelectorAll(".guided")) marked.classList.remove("guided");
    if (at < 0) return;
    const gesture = GESTURES[at];
    place.querySelector("[data-guide=said]").textContent = this.said;
    place.querySelector("[data-guide=ask]").textContent = gesture ? `${at + 1} of ${GESTURES.length}: ${gesture.ask}` : "That was all. Everything stays as you left it: go on, or pass on the address.";
    place.querySelector("[data-guide=skip]").textContent = gesture ? "Skip" : "Close";
    if (gesture) this.find(gesture.on)?.classList.add("guided");
  }
}

/** Whether the browser remembers something; a page opened from a file may have no storage. @param {string} name */
function isRemembered(name) {
  try {
    return localStorage.getItem(name) !== null;
  } catch {
    return false;
  }
}

/** @param {string} name */
function remember(name) {
  try {
    localStorage.setItem(name, "1");
  } catch {
    // Then the guide is offered again next time.
  }
}

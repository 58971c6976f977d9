// The first minute: five gestures, each on a picture that answers. It can be skipped.

/** How many buckets a setting keeps of each checkpoint. @param {any} setting */
const slotsOf = ({ x, most, budget }) => (budget !== null ? NaN : (most ?? (x === null ? Infinity : 2 ** x - 1)));

const GESTURES = [
  {
    ask: "In picture 2, drag the cut to the left until one slot is left; or press 1 beside x.",
    on: "buckets",
    done: ({ setting }) => slotsOf(setting) === 1,
    hint: ({ setting }) => (slotsOf(setting) === 0 ? "That is no slot at all: drag the cut back to the right, by one bucket." : ""),
    told: "Each checkpoint now keeps one bucket of changes. Look at 5: the restored model misreads.",
  },
  {
    ask: "Click far right on the loss curve in 4, or move the step slider to the right.",
    on: "loss",
    done: ({ setting, shown }) => slotsOf(setting) === 1 && shown >= 200,
    told: "It reads again: what one checkpoint left out came with later ones.",
  },
  {
    ask: "Switch off “Keep what is dropped for next time”.",
    on: "keep",
    done: ({ setting }) => slotsOf(setting) === 1 && !setting.carries,
    told: "Now it never recovers: what a checkpoint leaves out is lost for good.",
  },
  {
    ask: "Switch it on again, press 2 beside x, and click a coloured pixel in 1.",
    on: "weights",
    done: ({ setting, followed }, began) => setting.carries && setting.x === 2 && setting.most === null && followed !== began.followed,
    told: "One weight, everywhere: its bar in 2, its code word in 3, its stairs below 1.",
  },
  {
    ask: "Press “Train live”: the training begins anew. Press “Kill it now” while it runs, then “Race back”.",
    on: "play",
    done: ({ raced }) => raced,
    told: "The price of a crash: iterations until the loss is back. LC is this scheme; SCAR and TOPN have as many bytes, full has many more.",
  },
];
const SEEN = "lcviz-guide"; // in the browser's storage

/** Show the guide in a place, from its first gesture on. */
class Guide {
  /** @param {HTMLElement} place @param {(name: string) => HTMLElement | null} find an element by the name of a picture or a control */
  constructor(place, find) {
    [this.place, this.find] = [place, find];
    this.at = -1; // the gesture that is asked for
    place.querySelector("[data-guide=skip]").onclick = () => {
      this.end();
      document.getElementById("play").focus();
    };
  }

  begin() {
    this.at = 0;
    this.began = null;
    this.said = "A small model in training is saved every 10 iterations. One minute, five gestures.";
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
    const { done, hint } = GESTURES[this.at];
    const told = hint?.(state);
    if (told) this.said = told;
    if (told) this.show();
    if (!done(state, this.began)) return;
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
    place.querySelector("[data-guide=ask]").textContent = gesture ? `${at + 1} of ${GESTURES.length}: ${gesture.ask}` : "That was all. Go on as you like, or pass on the link.";
    place.querySelector("[data-guide=skip]").textContent = gesture ? "Skip" : "Close";
    if (!gesture) return;
    const target = this.find(gesture.on);
    target?.classList.add("guided");
    const isNarrow = innerWidth <= 700; // then the guide lies over the page
    if (at > 0 || isNarrow) target?.scrollIntoView({ block: isNarrow ? "center" : "nearest" });
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

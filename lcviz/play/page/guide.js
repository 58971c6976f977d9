// The first minute: five gestures, each on a picture that answers, in any order. It can be skipped.

/** How many buckets a setting keeps of each checkpoint. @param {any} setting */
const slotsOf = ({ x, most, budget }) => (budget !== null ? NaN : (most ?? (x === null ? Infinity : 2 ** x - 1)));

const LATE = 200; // the step from which one slot suffices

/** What a gesture needs first. @param {any} setting */
const again = (setting) => (slotsOf(setting) === 0 ? NONE : setting.carries ? "" : "Switch “Keep what is dropped for next time” on again. ");
const NONE = "No slot is left: drag the cut back to the right until one is, or press 1 beside x. ";

// on(state): the picture or control to outline. ask(state): what to do. done(state, began, made): whether
// a visitor has done it, by whatever way. began: the state in which the guide began. made: the gestures
// that are made. told: what the gesture has shown, while holds(state). see: the picture that shows it.
const GESTURES = [
  {
    on: () => "buckets",
    ask: ({ setting }) => (slotsOf(setting) === 0 ? NONE : "In picture 2, drag the cut to the left until one slot is left; or press 1 beside x."),
    done: ({ setting }) => slotsOf(setting) === 1,
    told: "Each checkpoint now keeps one bucket of changes. Look at 3: after early steps the restored model misreads.",
    holds: ({ setting }) => slotsOf(setting) === 1,
    see: "examples",
  },
  {
    on: () => "loss",
    ask: ({ setting, newest }) =>
      again(setting) +
      (newest < LATE
        ? `Let the training go on, to step ${LATE} or later.`
        : `Press far right on the loss curve in 5, or move the step slider to the right: to step ${LATE} or later.`),
    done: ({ setting, shown }, _, made) => made.has(GESTURES[0]) && again(setting) === "" && shown >= LATE,
    told: "At late steps the restored model reads most digits again: later checkpoints brought what earlier ones left out.",
    see: "examples",
  },
  {
    on: () => "keep",
    ask: () => "Switch off “Keep what is dropped for next time”.",
    done: ({ setting }) => !setting.carries,
    told: "Now it never recovers: what a checkpoint leaves out is lost for good.",
    holds: ({ setting }) => !setting.carries,
    see: "examples",
  },
  {
    on: ({ setting }) => (!setting.carries ? "keep" : slotsOf(setting) > 1 ? "weights" : "buckets"),
    ask: ({ setting }) => `${again(setting)}${slotsOf(setting) > 1 ? "Press" : "Press 2 beside x, then press"} a pixel in picture 1.`,
    done: ({ setting, chosen }, began) => setting.carries && slotsOf(setting) > 1 && chosen > began.chosen,
    told: "One weight, everywhere: its bar in 2, its code word in 4, its stairs below 1.",
    see: "weight",
  },
  {
    on: ({ dead, playing }) => (dead ? "race-back" : HOST || playing ? "kill" : "play"),
    ask: ({ setting, dead }) =>
      again(setting) +
      (dead ? "Press “Race back”." : HOST ? "Press “Kill it now”, then “Race back”." : "Press “Train live”: the training begins anew. Press “Kill it now” while it runs, then “Race back”."),
    done: ({ raced }) => raced,
    told: "The price of a crash: iterations until the loss is back. LC is this scheme; SCAR and TOPN have as many bytes, full has many more.",
    see: "race",
  },
];
const SEEN = "lcviz-guide"; // in the browser's storage

/** Asks for the gestures that are not made yet, one after the other. */
class Guide {
  /** @param {HTMLElement} place @param {(name: string) => HTMLElement | null} find an element by the name of a picture or a control */
  constructor(place, find) {
    [this.place, this.find] = [place, find];
    /** @type {Set<any> | null} the gestures that are made; null while there is no guide */
    this.made = null;
    place.querySelector("[data-guide=skip]").onclick = () => {
      this.end();
      find(HOST ? "start" : "play").focus();
    };
    place.querySelector("[data-guide=go]").onclick = () => this.target?.scrollIntoView({ block: "nearest" });
  }

  /** @param {any} state of the worker; null before its first one */
  begin(state) {
    this.made = new Set();
    [this.began, this.asked, this.told, this.seen] = [null, null, null, null];
    this.said = "A small model in training is saved every 10 iterations. One minute, five gestures.";
    this.show(state ?? { setting: {} });
    if (state) this.hear(state);
  }

  end() {
    this.made = null;
    remember(SEEN);
    this.show();
  }

  /** Go on if gestures have been made, in any order. @param {any} state of the worker */
  hear(state) {
    if (!this.made || !this.next || state.saved < state.states || !(this.began ?? state.isAtRest)) return;
    this.began ??= state;
    const now = GESTURES.filter((gesture) => {
      const isNew = !this.made.has(gesture) && gesture.done(state, this.began, this.made);
      if (isNew) this.made.add(gesture);
      return isNew;
    });
    if (now.length) [this.said, this.told] = [now.map(({ told }) => told).join(" "), now.at(-1)];
    else if (this.told?.holds?.(state) === false) this.said = "";
    if (!this.next) remember(SEEN);
    this.show(state);
  }

  /** The gesture that is asked for; undefined after the last one. */
  get next() {
    return GESTURES.find((gesture) => !this.made.has(gesture));
  }

  /** @param {any} [state] of the worker; what is asked for depends on it */
  show(state) {
    const { place, made } = this;
    place.hidden = !made;
    const gesture = made && this.next;
    if (!made) {
      board.style.removeProperty("--guide");
      return void (this.asked && this.point(null));
    }
    const ask = gesture ? `${GESTURES.indexOf(gesture) + 1} of ${GESTURES.length}: ${gesture.ask(state)}` : "That was all. Go on as you like.";
    write(place.querySelector("[data-guide=said]"), this.said);
    write(place.querySelector("[data-guide=ask]"), ask);
    place.querySelector("[data-guide=skip]").textContent = gesture ? "Skip" : "Close";
    place.querySelector("[data-guide=go]").hidden = !gesture;
    board.style.setProperty("--guide", `${place.offsetHeight}px`); // where the headline stays below it
    const on = gesture?.on(state);
    if (on !== this.asked) this.point(on);
    // Where the last gesture can be seen: what the next one needs may be out of sight.
    if (this.told !== this.seen) this.find(this.told.see).scrollIntoView({ block: "nearest" });
    this.seen = this.told;
  }

  /** Mark what a gesture is made on. @param {string | null | undefined} on its name; null or undefined for none */
  point(on) {
    this.asked = on;
    ROOT.querySelector(".guided")?.classList.remove("guided");
    this.target = on && this.find(on);
    this.target?.classList.add("guided");
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

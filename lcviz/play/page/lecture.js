// Lecture mode: one picture at a time in large type, with its question; and a handout of one page.

// Place, question, what explains it on paper, and what a speaker may ask for besides.
const SLIDES = [
  ["weights", "What has to be stored?", "A checkpoint is what a training restarts from after a crash. Only δ has to be stored: the difference between the weights in training, u, and those that a restart would load, ũ. Orange weights move up, blue ones down. Grey weights stay as they are for now."],
  ["buckets", "Which changes can wait?", "All changes of one sign and one power of two share a bucket, and become one value, its level. The x bits of priority promotion name 2ˣ − 1 buckets: those of the largest changes. All smaller changes become 0, and wait.", "Drag the cut."],
  ["bits", "Why are 32 bits a number too many?", "Few different values are left, and nearly all of them are 0. A Huffman code gives frequent values short words. The run-length code also counts the zeros between two changes, and writes one word for all of them."],
  ["weight", "Where does what was dropped go?", "It is not lost. The next δ starts from what a restart would load, so it holds all that earlier ones left out. ũ follows u in steps: late, but it follows."],
  ["loss", "What does a restart lose?", "Both curves are losses on digits that the training never sees: of the model in training, and of the model that a restart would load. Early checkpoints lag behind. Later ones catch up, as δ becomes smaller.", "Switch “Keep what is dropped” off."],
  ["examples", "Can the restored model still read?", "Ten digits that the training never sees. Above stands what the model in training reads, below what a restart would read after this checkpoint. What differs is what the missing bytes cost."],
  ["race", "What does a crash cost?", "Four ways to save the same training crash at the same iteration. The price is how many iterations each needs until its loss is back. Full checkpoints are exact and large. SCAR and TOPN save the blocks or the weights that changed most, in as many bytes as LC."],
];

if (GIVEN.recorded) {
  // Another picture stands there, and the model in training is not known.
  SLIDES[4] = ["loss", "How large is each step?", "Bytes of each record. They change with how much the training moves."];
  SLIDES[3] = ["weight", "How does one weight move?", "Most records leave it as it is. One that moves it moves it by the level of its bucket."];
}

// Where each δ is the change since the last checkpoint.
const WITHOUT_TRACK = {
  weights: "A checkpoint is what a training restarts from after a crash. Here δ is the difference since the last checkpoint. Orange weights move up, blue ones down. Grey weights stay as they are.",
  loss: "Both curves are losses on digits that the training never sees: of the model in training, and of a restart, which lacks for good all that checkpoints left out.",
  weight: "It is lost. Each δ holds the changes since the last checkpoint alone, so no later one makes up for what was left out. Kept for next time, it would be in the next δ.",
};

/** What explains a slide as the training is saved now. @param {string} name @param {string} sentence */
const explained = (name, sentence) => (state && (state.setting ?? state).carries === false && WITHOUT_TRACK[name]) || sentence;

/** Question and explanation of each picture, on paper. */
function explainPictures() {
  for (const [name, question, sentence] of SLIDES) set(card(name), { "data-question": question, "data-sentence": explained(name, sentence) });
}

const CARD = 400; // pixels, the natural width of a card; a wide one has 1.5 times that
const NARROWEST = 0.8; // of the natural width

/** Shows one slide after the other. */
class Lecture {
  /**
   * @param {HTMLElement} bar the question, the speaker's sentence and the buttons
   * @param {(name: string) => HTMLElement | null} find the card of a picture
   */
  constructor(bar, find) {
    [this.bar, this.find] = [bar, find];
    this.at = 0;
    this.on = false;
    this.crashed = false; // by this lecture
    listen(window, "resize", () => this.on && this.fit());
    // After a click the arrow keys go on with the slides.
    listen(board, "click", ({ detail }) => this.on && detail && focused().blur());
    for (const [name, act] of Object.entries({ back: () => this.go(-1), next: () => this.go(1), speak: () => this.speak(), end: () => this.end() }))
      bar.querySelector(`[data-lecture=${name}]`).onclick = act;
  }

  begin() {
    if (!state) return;
    this.on = true;
    this.at = 0;
    if (!run) writeAddress(state, entry());
    this.before = readAddress().opening;
    // Above everything: on the dashboard the board is a part of its page.
    board.popover = "manual";
    board.showPopover();
    board.classList.add("lecture");
    this.bar.hidden = false;
    this.go(0);
    this.bar.querySelector("[data-lecture=next]").focus();
  }

  end() {
    this.on = false;
    this.unfit();
    board.hidePopover();
    board.removeAttribute("popover");
    board.classList.remove("lecture");
    this.bar.hidden = true;
    this.undo();
    drawPictures();
    find("begin-lecture").focus();
  }

  /** The slides whose pictures are there; where the worker trains, the race can be run. */
  get slides() {
    return SLIDES.filter(([name]) => this.find(name).hidden === false || (name === "race" && !run));
  }

  /** @param {number} by */
  go(by) {
    const { slides } = this;
    this.unfit();
    this.at = Math.min(Math.max(this.at + by, 0), slides.length - 1);
    const [name, question] = slides[this.at];
    const isRace = name === "race";
    if (!isRace) this.undo();
    this.card = this.find(name);
    this.card.classList.add("shown-slide");
    this.bar.querySelector("h1").textContent = question;
    this.explain();
    this.bar.querySelector("[data-lecture=place]").textContent = `${this.at + 1} of ${slides.length}`;
    if (isRace && this.card.hidden) this.crash();
    this.fit();
  }

  /** Write the slide's text for the current setting. A speaker's request that it answers goes. */
  explain() {
    // A race that was closed is no slide any more, and still stands there.
    const slide = SLIDES.find(([name]) => this.find(name) === this.card);
    if (!slide) return;
    const [name, , sentence, speaker = ""] = slide;
    const now = explained(name, sentence);
    this.bar.querySelector("p").textContent = `${now} ${!run && now === sentence ? speaker : ""}`;
  }

  /** Make the slide as large as the screen lets it be. */
  fit() {
    const { card } = this;
    if (!card) return;
    const [{ clientWidth: width, clientHeight: height }, natural] = [card.parentElement, card.classList.contains("wide") ? 1.5 * CARD : CARD];
    // Drawn narrower, a flat picture and its words become larger.
    let zoom = 0;
    for (let drawnFor = natural; drawnFor >= NARROWEST * natural; drawnFor -= 20) {
      set(card, { style: `width: ${drawnFor}px`, "data-higher": null });
      drawPictures();
      zoom = Math.max(zoom, Math.min(width / drawnFor, height / card.offsetHeight));
    }
    set(card, { style: `width: ${Math.floor(width / zoom)}px; zoom: ${zoom}` });
    // What is left below goes to a curve or an image; its texts may then take another line.
    let higher = 0; // pixels
    for (let i = 0; i < 3; i++) {
      higher += Math.floor(height / zoom - card.getBoundingClientRect().height / zoom);
      set(card, { "data-higher": Math.max(higher, 0) });
      drawPictures();
    }
    this.fitHeadline();
  }

  /** Enlarge the headline as far as the column has room. */
  fitHeadline() {
    for (let zoom = 1.5; zoom > 0.8; zoom -= 0.1) {
      set(this.find("headline"), { style: `zoom: ${(zoom * innerWidth) / 1280}` });
      if (board.scrollHeight <= board.clientHeight) break;
    }
  }

  unfit() {
    this.card?.classList.remove("shown-slide");
    if (this.card) set(this.card, { style: null, "data-higher": null });
    set(this.find("headline"), { style: null });
    this.card = null;
  }

  /** Crash the training, and race back. */
  crash() {
    this.crashed = true;
    drawIn(this.card, "Four ways to save race back …", () => {});
    say("step", null); // at the end: the training is not repeated
    say("crash");
    say("race");
  }

  /** The same training as before a crash, once more. */
  undo() {
    if (this.crashed) say("return", this.before);
    this.crashed = false;
  }

  speak() {
    const sentence = this.bar.querySelector("p");
    sentence.hidden = !sentence.hidden;
    this.fitHeadline();
  }

  /** Act on a key; returns whether it was for the lecture. isFree: whether nothing else needs arrows. @param {string} key @param {boolean} isFree */
  handleKey(key, isFree) {
    const acts = { PageDown: () => this.go(1), PageUp: () => this.go(-1), s: () => this.speak(), Escape: () => this.end(), ...(isFree ? { ArrowRight: () => this.go(1), ArrowLeft: () => this.go(-1) } : {}) };
    if (!this.on || !acts[key]) return false;
    acts[key]();
    return true;
  }
}

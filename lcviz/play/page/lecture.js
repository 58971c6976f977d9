// Lecture mode: one picture at a time in large type, with its question; and a handout of one page.

// Place -> question, and what a speaker may say.
const SLIDES = [
  ["weights", "What has to be stored?", "A checkpoint is what a training restarts from after a crash. Only the difference from what a restart would load has to be stored. Orange moves up, blue down; grey weights stay as they are for now."],
  ["buckets", "Which changes can wait?", "Changes are sorted by exponent and sign. The buckets of the largest changes get a slot. All members of a bucket become one value."],
  ["bits", "Why are 32 bits a number too many?", "Few different values are left, and most are zero. Frequent ones get short code words."],
  ["weight", "Where does what was dropped go?", "It stays in the next difference, which starts from what a restart would load. The orange stairs follow the blue line: late, but they follow."],
  ["loss", "What does a restart lose?", "Both curves, of the model in training and of what a restart would load. Now keep only one slot, and then switch the track off."],
  ["examples", "Can the restored model still read?", "Above what the live model reads, below what a restart would read after this checkpoint."],
  ["race", "What does a crash cost?", "The iterations until the loss is back. Full checkpoints are exact and large; SCAR and TOPN get as many bytes as LC."],
];

if (GIVEN.recorded) {
  // Another picture stands there, and the model in training is not known.
  SLIDES[4] = ["loss", "How large is each step?", "Bytes of each record. They change with how much the training moves."];
  SLIDES[3] = ["weight", "How does one weight move?", "Most records leave it as it is. One that moves it moves it by the level of its bucket."];
}

for (const [name, question, sentence] of SLIDES) set(card(name), { "data-question": question, "data-sentence": sentence });

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
    for (const [name, act] of Object.entries({ back: () => this.go(-1), next: () => this.go(1), speak: () => this.speak(), crash: () => this.crash(), end: () => this.end() }))
      bar.querySelector(`[data-lecture=${name}]`).onclick = act;
  }

  begin() {
    this.on = true;
    this.go(0);
    this.bar.querySelector("[data-lecture=next]").focus();
  }

  end() {
    this.on = false;
    board.classList.remove("lecture");
    find("begin-lecture").focus();
    this.bar.hidden = true;
    for (const card of ROOT.querySelectorAll(".shown-slide")) card.classList.remove("shown-slide");
  }

  /** The slides whose pictures are there; the race can still be run. */
  get slides() {
    return SLIDES.filter(([name]) => this.find(name).hidden === false || (name === "race" && !GIVEN.recorded));
  }

  /** @param {number} by */
  go(by) {
    const { slides } = this;
    this.at = Math.min(Math.max(this.at + by, 0), slides.length - 1);
    board.classList.add("lecture");
    this.bar.hidden = false;
    for (const card of ROOT.querySelectorAll(".shown-slide")) card.classList.remove("shown-slide");
    const [name, question, sentence] = slides[this.at];
    this.find(name).classList.add("shown-slide");
    this.bar.querySelector("h1").textContent = question;
    this.bar.querySelector("p").textContent = sentence;
    this.bar.querySelector("[data-lecture=crash]").hidden = name !== "race";
    this.bar.querySelector("[data-lecture=place]").textContent = `${this.at + 1} of ${slides.length}`;
  }

  /** Crash the training, and race back. */
  crash() {
    say("crash");
    say("race");
  }

  speak() {
    const sentence = this.bar.querySelector("p");
    sentence.hidden = !sentence.hidden;
  }

  /** Act on a key; returns whether it was for the lecture. @param {string} key */
  handleKey(key) {
    const acts = { ArrowRight: () => this.go(1), PageDown: () => this.go(1), ArrowLeft: () => this.go(-1), PageUp: () => this.go(-1), s: () => this.speak(), Escape: () => this.end() };
    if (!this.on || !acts[key]) return false;
    acts[key]();
    return true;
  }
}

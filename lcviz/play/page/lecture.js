// Lecture mode: one picture at a time in large type, with its question; and a handout of one page.

// Place -> question, and what a speaker may say.
const SLIDES = [
  ["weights", "What has to be stored?", "Only the difference from what a restart would load. Orange went up, blue went down; grey weights have not moved enough to count."],
  ["buckets", "Which changes can wait?", "Changes are sorted by exponent and sign. The largest buckets get a slot. All members of a bucket become one level."],
  ["bits", "Why are 32 bits a number too many?", "Few different values are left, and most are zero. Frequent ones get short words; a run of zeros is one word."],
  ["weight", "Where does what was dropped go?", "It stays in the next difference, because that starts from the track. The orange stairs follow the blue line: late, but they follow."],
  ["loss", "What does a restart lose?", "Compare both curves. Try one slot: the restored model is worse, but it follows. Without the track it stays behind."],
  ["examples", "Can the restored model still read?", "Above what the live model reads, below what a restart would read after this checkpoint."],
  ["race", "What does a crash cost?", "The iterations until the loss is back. Full checkpoints are exact and large; at equal bytes the others restore less."],
];

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
    for (const [name, act] of Object.entries({ back: () => this.go(-1), next: () => this.go(1), speak: () => this.speak(), end: () => this.end() }))
      bar.querySelector(`[data-lecture=${name}]`).onclick = act;
  }

  begin() {
    this.on = true;
    this.go(0);
  }

  end() {
    this.on = false;
    document.body.classList.remove("lecture");
    this.bar.hidden = true;
    for (const card of document.querySelectorAll(".shown-slide")) card.classList.remove("shown-slide");
  }

  /** The slides whose pictures are there. */
  get slides() {
    return SLIDES.filter(([name]) => this.find(name)?.hidden === false);
  }

  /** @param {number} by */
  go(by) {
    const { slides } = this;
    this.at = Math.min(Math.max(this.at + by, 0), slides.length - 1);
    document.body.classList.add("lecture");
    this.bar.hidden = false;
    for (const card of document.querySelectorAll(".shown-slide")) card.classList.remove("shown-slide");
    const [name, question, sentence] = slides[this.at];
    this.find(name).classList.add("shown-slide");
    this.bar.querySelector("h2").textContent = question;
    this.bar.querySelector("p").textContent = sentence;
    this.bar.querySelector("[data-lecture=place]").textContent = `${this.at + 1} of ${slides.length}`;
  }

  speak() {
    const sentence = this.bar.querySelector("p");
    sentence.hidden = !sentence.hidden;
  }

  /** Whether a key was for the lecture. @param {string} key */
  hear(key) {
    const acts = { ArrowRight: () => this.go(1), PageDown: () => this.go(1), ArrowLeft: () => this.go(-1), PageUp: () => this.go(-1), s: () => this.speak(), Escape: () => this.end() };
    if (!this.on || !acts[key]) return false;
    acts[key]();
    return true;
  }
}

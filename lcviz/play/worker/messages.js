// What the page says to its worker, and the answers.

/** @type {Promise<Player> | null} */
let player = null;

onmessage = async ({ data: [name, ...values] }) => {
  if (name === "open") {
    const [given, opening] = values;
    Object.assign(TERMS, given.titles);
    Object.assign(WORDS, given.words);
    player = inflated(given.digits).then((bytes) => {
      const split = given.train * (SOURCE_PIXELS + 1);
      const data = { train: digitsOf(bytes.subarray(0, split)), heldOut: digitsOf(bytes.subarray(split)) };
      const created = new Player(data, given.sizes, (answer) => postMessage(answer));
      created.open(opening);
      return created;
    });
  }
  const own = await player;
  if (!own) return;
  if (name === "drawn") own.drawn = true;
  else own.changed = true;
  if (name === "speed") own.speed = values[0];
  else if (name === "step") own.step = values[0];
  else if (name === "picture") own.heard(values[0], values[1]);
  else if (name === "goOn") {
    own.goOn();
    own.play();
  } else if (name !== "open" && name !== "drawn") /** @type {any} */ (own)[name](...values);
  own.wake();
};

onunhandledrejection = (event) => postMessage({ failed: String(event.reason) });

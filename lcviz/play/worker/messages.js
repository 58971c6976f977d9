// What the page says to its worker, and the answers.

/** @type {Promise<Player> | null} */
let player = null;

onmessage = async ({ data: [name, ...values] }) => {
  if (name === "open") {
    const [given, opening] = values;
    player = inflated(given.digits).then((bytes) => {
      const split = given.train * (SOURCE_PIXELS + 1);
      const data = { train: digitsOf(bytes.subarray(0, split)), heldOut: digitsOf(bytes.subarray(split)) };
      const created = new Player(data, given.sizes, given.coders, (answer) => postMessage(answer));
      created.open(opening);
      return created;
    });
  }
  const visited = await player;
  if (!visited) return;
  visited.changed ||= name !== "drawn";
  if (name === "drawn") visited.isPageReady = true;
  else visited.messages += 1;
  if (name === "speed") visited.speed = values[0];
  else if (name === "return") visited.open(values[0]);
  else if (name === "step") visited.show(values[0]);
  else if (name === "picture") visited.heard(values[0], values[1]);
  else if (name !== "open" && name !== "drawn") /** @type {any} */ (visited)[name](...values);
  visited.wake();
};

onunhandledrejection = (event) => postMessage({ failed: String(event.reason) });

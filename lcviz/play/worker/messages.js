// What the page says to its worker, and the answers. One worker trains; another one reads files.

/** @type {Promise<Player | FilesPlayer> | null} */
let player = null;

/** @param {{ digits: string, train: number }} given */
async function givenDigits(given) {
  const bytes = await inflated(given.digits);
  const split = given.train * (SOURCE_PIXELS + 1);
  return { train: digitsOf(bytes.subarray(0, split)), heldOut: digitsOf(bytes.subarray(split)) };
}

/** @param {any} given @param {Opening} opening */
async function openTraining(given, opening) {
  const created = new Player(await givenDigits(given), given.sizes, given.coders, (answer) => postMessage(answer));
  created.open(opening);
  return created;
}

/** @param {any} given @param {Partial<Setting>} setting */
async function openFiles(given, setting) {
  const created = new FilesPlayer(given.coders, (answer) => postMessage(answer));
  created.openExample((await givenDigits(given)).train);
  created.use(setting);
  return created;
}

/** @param {Player} visited @param {string} name @param {any[]} values */
function tellTraining(visited, name, values) {
  visited.changed ||= name !== "drawn";
  if (name === "drawn") visited.isPageReady = true;
  else if (name === "speed") visited.speed = values[0];
  else if (name === "return") visited.open(values[0]);
  else if (name === "step") visited.show(values[0]);
  else if (name === "picture") visited.heard(values[0], values[1]);
  else if (name !== "open") /** @type {any} */ (visited)[name](...values);
  visited.wake();
}

/** @param {FilesPlayer} visited @param {string} name @param {any[]} values */
async function tellFiles(visited, name, values) {
  if (name === "drawn") return;
  if (name === "files") await visited.open(values[0]);
  else if (name === "use") visited.use(values[0]);
  else if (name === "step") visited.heard("step", values[0]);
  else if (name === "picture") visited.heard(values[0], values[1]);
  visited.work();
}

onmessage = async ({ data: [name, ...values] }) => {
  if (name === "open") player = openTraining(values[0], values[1]);
  if (name === "openFiles") player = openFiles(values[0], values[1]);
  const visited = await player;
  if (!visited) return;
  if (name !== "drawn") visited.messages += 1;
  if (visited instanceof Player) tellTraining(visited, name, values);
  else await tellFiles(visited, name, values);
};

onunhandledrejection = (event) => postMessage({ failed: String(event.reason) });

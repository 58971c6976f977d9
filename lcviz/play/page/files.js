// Files of one's own on the board: they are read here, and sent nowhere.

/** Start what reads them, with its own example. */
function openFiles() {
  files = new InWorker(hear);
  files.asked = 1;
  files.hear("openFiles", given, address.files);
  return files;
}

/** @param {any} chosen a list of files */
function readFiles(chosen) {
  if (tab !== "files") goTo("files");
  if (chosen.length) say("files", [...chosen]);
}

function drawFiles() {
  const { files: names, setting, isExample, exact, shown } = state;
  const steps = names.length - 1;
  set(find("step"), { min: 2, max: Math.max(steps + 1, 2), step: 1, "aria-valuetext": names[shown] ?? "" });
  find("step").value = shown + 1;
  find("step-told").textContent = `file ${shown + 1}`;
  find("keep").checked = setting.carries;
  for (const name of ["distance", "budget"]) {
    if (!find(name).matches(":focus")) find(name).value = setting[name] === null ? "" : name === "budget" ? significant(100 * setting[name], 12) : setting[name];
  }
  const left = exact ? ` Stored exactly, and not counted: ${pluralText(exact, "tensor")} (tiny, of other types, or batch norm statistics).` : "";
  const sizes = " Sizes are without the header of a record, about 0.2 kB.";
  find("files-about").textContent = (isExample ? "An example: a small training, saved at four iterations, with its weight matrix in bfloat16." : `${names.length} files, in the order of the numbers in their names.`) + left + sizes;
  find("lines").textContent = linesOf(setting);
}

/** A setting as lines for a training. @param {any} setting */
function linesOf({ x, most, budget, distance, coder, carries }) {
  if (!carries) return "# The codec always keeps what is dropped for the next checkpoint: tick that box.";
  if (distance === null && budget === null && most !== null) return "# The codec keeps 2^x - 1 buckets, not this number: choose x.";
  const kept = distance !== null ? `distance=${distance}` : budget !== null ? `budget=${budget}` : `bits=${x ?? "None"}`;
  const code = coder === "runlength" ? "" : `, coder="${coder}"`;
  return `checkpointer = codec.Checkpointer("run.lcc", ${kept}${code})\ncheckpointer.save(step, model.state_dict())`;
}

find("choose-files").onclick = () => find("file-input").click();
find("file-input").onchange = ({ target }) => {
  readFiles(target.files);
  target.value = ""; // the same files may be chosen once more
};
const isFiles = (/** @type {any} */ event) => !run && event.dataTransfer?.types.includes("Files");
listen(document, "dragover", (event) => isFiles(event) && event.preventDefault());
listen(document, "drop", (event) => {
  if (!isFiles(event)) return;
  event.preventDefault();
  readFiles(event.dataTransfer.files);
});
for (const name of ["distance", "budget"]) {
  find(name).onchange = ({ target }) => {
    const value = Number(target.value) / (name === "budget" ? 100 : 1);
    const fits = value > 0 && (name === "budget" ? value <= 1 : value < 1);
    if (fits) say("use", { distance: null, budget: null, most: null, [name]: value });
    else show("message", name === "budget" ? "A budget is a share of float32’s bytes: above 0, up to 100 %." : "A distance is the share of a change that may be left: above 0 and below 1.");
  };
}
find("copy-lines").onclick = ({ target }) => copyText(target, () => find("lines").textContent, "Copied", "This browser copies nothing");

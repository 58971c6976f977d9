"""A setting as Python code that saves with it in any training loop."""

from __future__ import annotations

from lcviz.lab.tuner.candidates import Setting


def in_a_loop(setting: Setting, *, optimizer: bool = False) -> str:
    """Python for a loop over `step` with a `model`: open, save, close, and load the weights.

    The code names all settings, since the codec's defaults may change. optimizer: whether the loop
    has an `optimizer` whose state is saved and loaded, too.
    """
    arguments = ", ".join(
        f"{name}={value!r}"
        for name, value in setting.coding.header().items()
        if value is not None or (name == "bits" and setting.coding.by_bits)
    ).replace("'", '"')
    state = '{"model": model.state_dict()}'
    load = 'model.load_state_dict(codec.restore("run.lcc")["model"])'
    if optimizer:
        state = '{"model": model.state_dict(), "optimizer": optimizer.state_dict()}'
        load = """state = codec.restore("run.lcc")
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])"""
    save = f"checkpoints.save(step, {state})"
    if setting.interval > 1:
        save = f"if step % {setting.interval} == 0:\n    {save}"
    return f"""import codec

checkpoints = codec.Checkpointer(
    "run.lcc", {arguments},
    resume=True,
)

# In your loop, after every step:
{save}

# After the last one, and wherever you want {"all of it" if optimizer else "the weights"} back:
checkpoints.close()
{load}"""

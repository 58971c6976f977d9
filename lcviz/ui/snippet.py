"""A setting as Python code that saves with it in any training loop."""

from __future__ import annotations

import textwrap

from lcviz.lab.tuner.candidates import Setting

WIDTH = 42  # characters of a line of arguments: the box is narrow


def in_a_loop(setting: Setting, *, optimizer: bool = False) -> str:
    """Python for a loop of n steps with a `model`: open or resume, save, and load the weights.

    The code names all settings, since the codec's defaults may change. optimizer: whether the loop
    has an `optimizer` whose state is saved and loaded, too.
    """
    arguments = ", ".join(
        f"{name}={value!r}"
        for name, value in setting.coding.header().items()
        if value is not None or (name == "bits" and setting.coding.by_bits)
    ).replace("'", '"')
    objects = "model=model, optimizer=optimizer" if optimizer else "model=model"
    lines = textwrap.wrap(f'"run.lcc", {objects}, {arguments}', WIDTH, break_on_hyphens=False)
    when = f"if step % {setting.interval} == 0:\n            " if setting.interval > 1 else ""
    return f"""import codec

# Goes on where the chain ends.
with codec.Checkpointer.of(
    {f"{chr(10)}    ".join(lines)}
) as checkpoints:
    for step in range(checkpoints.next_step, n):
        train(step)
        {when}checkpoints.save(step)

# The weights, anywhere:
weights = codec.restore("run.lcc")["model"]"""

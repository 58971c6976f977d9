"""A setting as the lines that save with it in any training loop."""

from __future__ import annotations

from lcviz.lab.tuner.candidates import Setting


def in_a_loop(setting: Setting) -> str:
    """Python for a loop over `step` with a `model`: open, save, close, and load the weights.

    It names every setting: the codec's defaults may change.
    """
    of, settings = setting.coding, setting.coding.header()
    settings = {k: v for k, v in settings.items() if v is not None or (k == "bits" and of.by_bits)}
    coding = ", ".join(f"{name}={value!r}" for name, value in settings.items()).replace("'", '"')
    save = 'checkpoints.save(step, {"model": model.state_dict()})'
    if setting.interval > 1:
        save = f"if step % {setting.interval} == 0:\n    {save}"
    return f"""import codec

checkpoints = codec.Checkpointer(
    "run.lcc", {coding},
    resume=True,
)

# In your loop, after every step:
{save}

# After the last one, and wherever you want the weights back:
checkpoints.close()
model.load_state_dict(codec.restore("run.lcc")["model"])"""

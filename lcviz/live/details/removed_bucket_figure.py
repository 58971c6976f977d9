"""Reconstruction error per removed bucket, as in the paper's figure."""

from __future__ import annotations

import math

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.text import exponent_text, loss_text
from lcviz.ui.charts import PURPLE, SIGN_COLOURS, SIGN_NAMES, Panel, base_figure, plotted

HEIGHT = 300  # pixels
DROPPED = "/"  # pattern of a bar


def removed_bucket_panel(result: RemovedBuckets, marked: BucketKey | None = None) -> Panel:
    """How far the loss moves without one bucket of the delta. marked: the highlighted one."""
    figure = base_figure("exponent e of the removed bucket", "change of the loss", HEIGHT, l=76)
    for sign, name in enumerate(SIGN_NAMES):
        own = [b for b in result.buckets if b.sign == sign]
        rims = [3 if (b.exponent, b.sign) == marked else 0 for b in own]
        figure.add_bar(
            name=name,
            x=[b.exponent for b in own],
            y=[plotted(b.loss - result.loss) for b in own],
            marker={
                "color": SIGN_COLOURS[sign],
                "opacity": [1 if b.kept else 0.55 for b in own],
                "pattern": {"shape": ["" if b.kept else DROPPED for b in own]},
                "line": {"color": PURPLE, "width": rims},
            },
            hovertemplate="%{y:+.4g}",
        )
    span = [b.exponent for b in result.buckets] or [0]
    figure.update_layout(bargap=0.25)
    figure.update_xaxes(dtick=max(1, (max(span) - min(span)) // 24), tickformat="d")
    figure.update_yaxes(zeroline=True, zerolinecolor="rgba(128,128,128,0.6)")
    sentence = _sentence(result)
    here = next((b for b in result.buckets if (b.exponent, b.sign) == marked), None)
    if here is not None:
        bucket = exponent_text(here.exponent, here.sign)
        sentence += f" Highlighted: without {bucket} it is {loss_text(here.loss, 4)}."
        if (change := plotted(here.loss - result.loss)) is not None:
            top = max(change, 0)
            figure.add_annotation(text=f"▼ {bucket}", x=here.exponent, y=top, showarrow=False)
            figure.update_annotations(yanchor="bottom")
    return Panel(
        f"Error when one bucket of step {result.step} is removed",
        sentence,
        figure,
        "Change of the loss for each removed exponent bucket, by sign.",
        _table(result),
    )


def _table(result: RemovedBuckets) -> pd.DataFrame:
    every = result.buckets
    return pd.DataFrame(
        {
            "exponent": [b.exponent for b in every],
            "sign": ["−" if b.sign else "+" for b in every],
            "values": [b.count for b in every],
            "kept by promotion": [b.kept for b in every],
            "loss without it": [plotted(b.loss) for b in every],
            "change of the loss": [plotted(b.loss - result.loss) for b in every],
            "relative distance": [plotted(b.distance) for b in every],
        }
    )


def _sentence(result: RemovedBuckets) -> str:
    if not result.buckets:
        return "Nothing changed in this step, so there is no bucket to remove."
    if not math.isfinite(result.loss):
        return "The rebuilt model has no finite loss, so its buckets cannot be compared."
    moved = {b: abs(b.loss - result.loss) for b in result.buckets}
    worst = max(moved, key=lambda b: moved[b] if math.isfinite(moved[b]) else math.inf)
    small = sum(change < 0.001 * result.loss for change in moved.values())
    hatched = " Hatched: dropped."
    return (
        f"With every bucket the loss is {result.loss:.4f}; "
        f"without {exponent_text(worst.exponent, worst.sign)} it "
        f"{'falls' if worst.loss < result.loss else 'rises'} most, to {loss_text(worst.loss, 4)}. "
        f"{small} of {len(moved)} buckets move it by less than 0.1 %."
        f"{'' if all(b.kept for b in result.buckets) else hatched}"
    )

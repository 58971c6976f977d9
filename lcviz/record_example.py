"""Record what a new server shows at once: python -m lcviz.record_example."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import codec
from lcviz.lab.recovery.rework import costs
from lcviz.lab.step_tensors import rebuild_step
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture
from lcviz.live.buckets_picture import Worth
from lcviz.live.followed import first_weight, history_of
from lcviz.live.headline import crash_of
from lcviz.live.page_pictures import Subject, pictures
from lcviz.live.step_record import saved_record
from lcviz.recover import page_rework
from lcviz.recover import recorded as recover
from lcviz.recover.rework_figure import rework_panel
from lcviz.report.chain_figures import figures_of
from lcviz.report.one_file import shown_text
from lcviz.report.tensors_figure import tensor_bars
from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING
from lcviz.server.runs import EXAMPLE, EXAMPLE_OPENS
from lcviz.tune import recorded as tune
from lcviz.tune.page_recommend import recommended
from lcviz.tune.recommend_figure import frontier_panel
from lcviz.ui import recording
from lcviz.ui.charts import INK, Panel, inked_figure
from lcviz.ui.picture import Picture
from lcviz.ui.race import race_picture


def recorded() -> dict[str, Any]:
    """Train the example and draw its pictures; returns what `recording` reads."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run("recorded", EXAMPLE, Path(folder) / "run.lcc")
        run.play()
        while (snapshot := run.wait(5)).status == PLAYING:
            run.watch()
        record = saved_record(run, snapshot.at(EXAMPLE_OPENS))
        history = history_of(run, record, first_weight(record))
        crash = crash_of(snapshot, EXAMPLE_OPENS)
        drawings = dict(pictures(run, snapshot, Subject(record), history, crash, Worth()))
        panels = figures_of(run.path).panels
        newest_step = rebuild_step(codec.Chain(run.path), snapshot.newest.step)
        run.close()
    track, live = read_numbers(TRACK), read_numbers(TRAINED)
    return {
        "title": run.task.title,
        "pictures": {
            name: drawing.data for name, drawing in drawings.items() if not isinstance(drawing, str)
        },
        "learn": learn_picture(track, live, live, Start()).data,
        "pages": {
            **_experiments(),
            "inspect": _page(
                "Inspect a chain", tensor_bars(newest_step), panels["sizes"], panels["exponents"]
            ),
        },
        "ink": INK,
    }


def _experiments() -> dict[str, Any]:
    """The pages Tune and Recover, drawn from the recordings that these have of their own."""
    answer = recommended(tune.recorded())
    crashes = recover.recorded()
    cost = page_rework.headline(crashes.by_seed, crashes.experiment.share)
    race = race_picture(crashes.by_seed[0], crashes.experiment.protocol.fail_at)
    return {
        "tune": _page(
            f"Tune: {answer.headline}",
            frontier_panel(answer.tuned, "rework", tune.SWEEP.unit, answer.closer),
        ),
        "recover": _page(f"Recover: {cost}", race, rework_panel(costs(crashes.by_seed))),
    }


def _page(title: str, *panels: Panel | Picture) -> dict[str, Any]:
    """A title, and what `recording` draws below it."""
    drawings = [
        panel.data
        if isinstance(panel, Picture)
        else {
            "title": shown_text(panel.title),
            "alt": panel.alt,
            "figure": json.loads(inked_figure(panel.figure, "light").to_json()),
        }
        for panel in panels
    ]
    return {"title": title, "panels": drawings}


if __name__ == "__main__":
    codec.warm_up()  # numpy alone codes larger models in another way
    tune.FILE.write_text(tune.record(), encoding="utf-8")
    crashes = recover.record(recover.EXPERIMENT, recover.SEEDS)
    recover.FILE.write_text(crashes.dump(), encoding="utf-8")
    recording.FILE.write_text(json.dumps(recorded(), ensure_ascii=False), encoding="utf-8")

"""All figures of one chain: a mapping that shows itself in a notebook, and becomes a report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import plotly.graph_objects as go

import codec
from codec.errors import PayloadError, StepNotFoundError
from codec.inspect import FORMAT
from lcviz.lab.chain_summary import Summary, summarize
from lcviz.lab.progress import Progress, part, unreported
from lcviz.lab.records import Catalogue, RecordFacts, list_records, read_contents
from lcviz.lab.step_tensors import rebuild_step
from lcviz.text import CODER_NAMES, behind_text, kept_text, nbytes_text, percent_text, plural
from lcviz.ui.charts import Panel

from .buckets import kept_buckets
from .buckets_figure import removed_bucket, values_by_bucket
from .code_words_figure import code_words
from .exponents import StepExponents, count_exponents
from .exponents_figure import exponents_over_steps
from .integrity_figure import steps_that_restore
from .one_file import report_html, shown_text
from .records_figure import sizes_over_steps
from .tensors_figure import tensor_bars
from .verdict import chain_warning, verdict

PARTS = 3  # reading, decoding, verifying
TITLE_HEIGHT = 40  # pixels that a figure's own title takes
_SCOPES = {"model": "buckets over the whole model", "tensor": "buckets for each tensor"}


@dataclass(frozen=True, eq=False)
class ChainFigures(Mapping[str, go.Figure]):
    """The figures of a chain by name: `figures["sizes"]` is a Plotly figure.

    Attributes:
        name: Of the chain.
        date: When its newest record was written; None if unknown.
        verdict: Which steps restore, and what to do, in a sentence or two.
        warning: A sentence if restarts are too far from what was trained, else "".
        problems: What is wrong, in the codec's words; empty if all is well.
        settings: What is said of the chain above the figures: name -> words.
        missing: Figures that cannot be drawn: name -> why.
        panels: Name -> figure, sentence and table.
    """

    name: str
    date: datetime | None
    verdict: str
    warning: str
    problems: tuple[str, ...]
    settings: Mapping[str, str]
    missing: Mapping[str, str]
    panels: Mapping[str, Panel]

    def __getitem__(self, name: str) -> go.Figure:
        panel = self.panels[name]
        assert isinstance(panel.figure, go.Figure)
        figure = go.Figure(panel.figure)
        margin, height = figure.layout.margin, figure.layout.height
        place = {"x": 0, "xref": "paper", "y": 0.98, "yanchor": "top"}
        return figure.update_layout(
            title=place | {"text": escape(panel.title)},
            margin={"t": margin.t + TITLE_HEIGHT},
            height=height + TITLE_HEIGHT,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.panels)

    def __len__(self) -> int:
        return len(self.panels)

    def text(self, name: str) -> str:
        """What a figure shows, in a sentence or two."""
        panel = self.panels[name]
        return shown_text(f"{panel.title}. {panel.sentence}").strip()

    def to_html(self) -> str:
        """The report as one HTML file, which loads nothing from elsewhere."""
        return report_html(self)

    def _repr_html_(self) -> str:
        """The report in a notebook, inside an iframe that runs its scripts."""
        frame = 'width="100%" height="720" style="border: 0"'
        return f'<iframe {frame} title="Report" srcdoc="{escape(self.to_html())}"></iframe>'


def figures_of(
    source: str | os.PathLike[str], step: int | None = None, progress: Progress = unreported
) -> ChainFigures:
    """The figures of a chain.

    Args:
        source: Path or URL of a run.lcc directory or a .lcc.zip.
        step: Step whose buckets, code words and tensors are drawn; by default the newest that
            restores and is not a base.
        progress: Called with the work done, and the whole.

    Raises:
        StepNotFoundError: No record holds that step.
        LccError: The chain cannot be opened. Damaged records are no error: they are shown.
    """
    chain, path = codec.Chain(source), Path(os.fspath(source))
    folder = path if path.is_dir() else None
    listed = list_records(chain, folder)
    catalogue = Catalogue()
    for catalogue in read_contents(chain, listed, Catalogue()):
        part(progress, 0, PARTS)(len(catalogue.records), max(len(listed), 1))
    exponents, undecoded = _exponents(chain, catalogue.records, part(progress, 1, PARTS))
    report = chain.verify(part(progress, 2, PARTS))
    summary = summarize(catalogue.records)
    if step is not None and step not in summary.steps:
        raise StepNotFoundError(f"{chain.where}: no record holds step {step}")
    if step is None:
        changed = {r.entry.step for r in catalogue.records if r.entry.kind == "delta"}
        step = max(changed & set(report.steps), default=None)
    panels, missing = _panels(chain, catalogue.records, exponents, step)
    if summary.steps:
        panels["integrity"] = steps_that_restore(set(report.steps), summary.steps)
    problems = tuple(dict.fromkeys([*summary.problems, *report.problems, *undecoded]))
    return ChainFigures(
        path.name,
        _date(path, chain),
        verdict(catalogue.records, summary, report.steps, not problems),
        chain_warning(catalogue.records, grows=folder is not None),
        problems,
        _settings(summary),
        missing,
        panels,
    )


def _panels(
    chain: codec.Chain,
    records: Sequence[RecordFacts],
    exponents: Sequence[StepExponents],
    step: int | None,
) -> tuple[dict[str, Panel], dict[str, str]]:
    """The figures by name, and those that cannot be drawn: name -> why. step: None if none is."""
    panels, missing = {"sizes": sizes_over_steps(records)}, {}
    if any(histogram.counts for histogram in exponents):
        panels["exponents"] = exponents_over_steps(exponents)
    else:
        missing["exponents over time"] = "No weight changes in any step that can be decoded."
    if step is None:
        missing["buckets, code words, removed bucket"] = "No delta restores."
        return panels, missing
    try:
        panels |= _panels_of_step(chain, step)
    except codec.LccError as exc:
        missing["buckets"] = f"Step {step} cannot be restored: {exc}."
    if "buckets" not in panels and not missing:
        missing["buckets"] = f"Step {step} changes no weight that is stored as a code."
    return panels, missing


def _exponents(
    chain: codec.Chain, records: Sequence[RecordFacts], progress: Progress
) -> tuple[list[StepExponents], list[str]]:
    """Histograms of all steps that can be reached, and why some records do not decode."""
    usable = [r for r in records if r.reached]
    histograms: list[StepExponents] = []
    undecoded = []
    for done, record in enumerate(usable, 1):
        try:
            if histogram := count_exponents(chain, record):
                histograms.append(histogram)
        except (codec.RecordError, codec.ChainError, PayloadError) as exc:
            undecoded.append(str(exc))
        progress(done, len(usable))
    return histograms, undecoded


def _panels_of_step(chain: codec.Chain, step: int) -> dict[str, Panel]:
    """The panels of a step. Raises LccError if it does not restore."""
    facts = rebuild_step(chain, step)
    if not facts.groups:
        return {}
    step_buckets = kept_buckets(chain, facts)
    panels: dict[str, Panel] = {}
    if step_buckets.buckets:
        panels["buckets"] = values_by_bucket(step_buckets)
    if (words := code_words(facts)) is not None:
        panels["code words"] = words
    if all(b.moved is not None for b in step_buckets.buckets) and step_buckets.buckets:
        panels["removed bucket"] = removed_bucket(step_buckets)
    return panels | {"tensors": tensor_bars(facts)}


def _date(path: Path, chain: codec.Chain) -> datetime | None:
    """When the newest record was written."""
    files = [path] if path.is_file() else [path / e.name for e in chain.entries]
    times = []
    for file in files:
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return datetime.fromtimestamp(max(times), UTC) if times else None


def kinds_text(summary: Summary) -> str:
    """How many records of each kind there are."""
    return ", ".join(plural(n, kind) for kind, n in summary.kinds.items())


def _settings(summary: Summary) -> dict[str, str]:
    """What is said of the chain above the figures: name -> words."""
    kinds = kinds_text(summary)
    settings = {
        "Steps": f"{len(summary.steps):,}",
        "Records": f"{sum(summary.kinds.values()):,} ({kinds})",
        "On disk": nbytes_text(summary.nbytes),
    }
    if summary.times:
        full = nbytes_text(summary.full_nbytes)
        settings["Smaller"] = f"{summary.times:.1f} × than full float32 checkpoints, {full}"
    if summary.step_nbytes and summary.share:
        share = percent_text(summary.share)
        settings["A step"] = f"{nbytes_text(summary.step_nbytes)}, {share} of float32"
    if summary.codings:
        coding = summary.codings[-1]
        settings["Kept"] = f"{kept_text(coding)}, {_SCOPES[coding.scope]}"
        settings["Coder"] = CODER_NAMES[coding.coder]
        if summary.behind is not None:
            settings["Behind"] = f"{behind_text(summary.behind)} of what was trained since the base"
        if other_settings := len(summary.codings) - 1:
            settings["Other settings before"] = f"{other_settings:,}"
    if summary.moments:
        settings["Optimizer"] = summary.moments
    if summary.tables:
        settings["Code tables reused"] = f"{summary.tables_reused:,} of {summary.tables:,}"
    return settings | {"Format": str(FORMAT)}

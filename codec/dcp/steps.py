"""A saved step as a whole, without a state to fill: its records, a check of them, its state.

Read only steps of people you trust: reading unpickles `.metadata`, which DCP wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

from codec.errors import ChainError, LccError, RecordError

from .files import RecordAt, rebuild
from .rank_writer import read_item
from .reader import ChainReader, metadata_of
from .stores import Step


@dataclass(frozen=True)
class StepRecord:
    """The newest record of some chunks of a step.

    Attributes:
        at: Where it is: in the step, or in an earlier one if the chunks have not changed since.
        kind: "base" or "delta".
        chunks: Names of the chunks.
        needs: Names of the other steps that lead to it.
    """

    at: RecordAt
    kind: str
    chunks: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def rank(self) -> int:
        """The rank that wrote it."""
        return int(self.at.file.split("_")[2])


def records_of(step: Step) -> list[StepRecord]:
    """The records of a step, by rank.

    Raises:
        ChainNotFoundError: There is no whole checkpoint.
        ChainError: Its metadata is damaged.
        SourceError: No ChainWriter saved it.
    """
    chunks: dict[RecordAt, list[str]] = {}
    needs: dict[RecordAt, tuple[str, ...]] = {}
    for metadata in metadata_of(step):
        for item in (metadata.storage_data or {}).values():
            at, steps, name = read_item(item, step)
            chunks.setdefault(at, []).append(name)
            needs[at] = steps
    found = [
        StepRecord(at, at.file.split(".")[1], tuple(names), needs[at])
        for at, names in chunks.items()
    ]
    return sorted(found, key=lambda record: (record.rank, record.at.file))


def verify_step(step: Step, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """Rebuild every chunk of a step from its base; all digests are checked, as `codec.verify` does.

    Args:
        step: The step.
        progress: Called with (records done, records in all) after each record.

    Returns:
        Everything that is wrong, each as one sentence.

    Raises:
        ChainError, SourceError: As `records_of`.
    """
    problems: list[str] = []
    records = records_of(step)
    for done, record in enumerate(records, 1):
        try:
            replay, _ = rebuild(step.run, record.at, thoroughly=True)
            assert replay.track is not None, "rebuilt or failed"
            if missing := set(record.chunks) - replay.track.layout.numbers.keys():
                problems.append(f"{step}: {record.at.file} has no chunk {min(missing)!r}")
        except (RecordError, ChainError) as exc:
            problems.append(str(exc))
        if progress:
            progress(done, len(records))
    return problems


def state_of(step: Step) -> dict[Any, Any]:
    """The whole state of a step, in one process: nested as it was saved, tensors on the CPU.

    Raises:
        ChainError, RecordError: A record is missing or damaged. Also what `records_of` raises.
    """
    records_of(step)  # raises what DCP would wrap
    reader = ChainReader(".")
    reader.go_to(step)
    state: dict[Any, Any] = {}
    planner = _EmptyStateDictLoadPlanner()  # as torch's own `dcp_to_torch_save`
    try:
        _load_state_dict(state, reader, planner=planner, no_dist=True)
    except CheckpointException as exc:
        reasons = [reason for reason, _ in exc.failures.values()]
        raise next((r for r in reasons if isinstance(r, LccError)), exc) from exc
    return state

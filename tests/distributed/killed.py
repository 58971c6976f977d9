"""One of two ranks is killed in the midst of a save, and the training is started again.

first     steps 0, 1 and 2 are saved; at 3, rank 1 is killed once its records are on disk
again     the newest whole step is 2: from there, as a training would, and 3 is saved anew
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import codec
from codec.dcp import ChainReader, ChainWriter, needed
from codec.dcp.rank_writer import RankWriter


def value(step: int) -> DTensor:
    """(10, 13), by rows: a random walk, the same every time."""
    rng = torch.Generator().manual_seed(0)
    whole = torch.randn((10, 13), generator=rng)
    for _ in range(step):
        whole += 0.01 * torch.randn((10, 13), generator=rng)
    return distribute_tensor(whole, dist.device_mesh.init_device_mesh("cpu", (2,)), [Shard(0)])


def killing(self: RankWriter, *given: Any) -> Any:
    """What writes a rank's part, and is not heard of again."""
    _run(self, *given)
    os.kill(os.getpid(), signal.SIGKILL)


_run = RankWriter.run


def main(run: Path, start: str) -> None:
    """One of the two starts."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=600))
    warnings.simplefilter("ignore")  # torch's own
    again = start == "again"
    whole = [step for step in range(5) if (run / f"{step}" / ".metadata").exists()]
    assert whole == ([0, 1, 2] if again else [])
    writer = ChainWriter(bits=2, resume=run / "2" if again else None)
    track: codec.Tracker | None = None
    found = {"w": value(0), "ema": {"x": torch.zeros(2000, dtype=torch.int64)}}
    if again:
        assert list((run / "3").glob("__1_*")), "rank 1 had written its part"
        dcp.load(found, storage_reader=ChainReader(run / "2"))
    for step in range(5):
        local = {"w": value(step).to_local()}
        if track is None:
            track = codec.Tracker(local, 2, "tensor")
        else:
            track.step(local)
        if again and step == 2:
            assert torch.equal(found["w"].to_local(), torch.from_numpy(track.state["w"]))
        if again and step <= 2:
            continue
        if step == 3 and not again and dist.get_rank() == 1:
            RankWriter.run = killing  # type: ignore[method-assign]
        state = {"w": value(step), "ema": {"x": torch.arange(2000) + step}}  # x is exact
        dcp.save(state, storage_writer=writer, checkpoint_id=run / f"{step}")
        dcp.load(found, storage_reader=ChainReader(run / f"{step}"))
        assert torch.equal(found["w"].to_local(), torch.from_numpy(track.state["w"]))
        assert torch.equal(found["ema"]["x"], state["ema"]["x"])
    assert again
    assert needed(run / "4") == [run / f"{step}" for step in range(5)], "no base but the first"
    data = ChainReader(run / "4").read_metadata().storage_data
    (needs,) = (item["of"]["needs"] for index, item in data.items() if index.fqn == "ema.x")
    assert needs == ("0", "1", "2", "3"), "residuals go on in a new process"
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    os._exit(0)  # as in scenarios.py

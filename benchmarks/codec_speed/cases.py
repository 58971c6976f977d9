"""How tasks are timed: each in turn, round after round.

A ratio compares two tasks of the same round; the median over the rounds is reported. GB/s count
float32 input: 4 n bytes. All buffers have been written to before. Between two timings, whatever the
task changes is restored, and then other memory is written, so that no task finds its data in a
cache. Results are checked in the first round, which is not counted, and in the last.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codec.scheme import huffman
from codec.scheme.quantize import Quantized, quantize
from codec.scheme.stream import encode

from . import samples
from .samples import Floats, Sample
from .tasks import Copier, TimedTask, Tools, copies, ours

ROUNDS = 7
SMALL, SMALL_FACTOR = 2**22, 3  # below SMALL parameters SMALL_FACTOR times as many rounds
LARGE = 2**25  # above it two thirds of the rounds, and no symbols in random order
FLUSH = 2**24  # float32 values written between two timings: more than a cache holds

Peers = Callable[[Sample, Quantized], Tools]
TIMED = ("runlength", "huffman")  # coders


def expected_track(sample: Sample, q: Quantized) -> Floats:
    """The track after a step, computed from its quantized delta without coder and tracker."""
    moved = sample.track.copy()
    promoted = np.flatnonzero(q.codes)
    moved[promoted] += q.levels[q.codes[promoted]]
    return moved


def measure(tasks: Sequence[TimedTask], rounds: int) -> list[list[float]]:
    """The seconds of each task in each round. Raises RoundTripError."""
    other_memory = np.zeros(FLUSH, np.float32)
    seconds: list[list[float]] = [[] for _ in tasks]
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(rounds + 1):
            for task, times in zip(tasks, seconds):
                task.reset()
                other_memory.fill(number)
                begin = time.perf_counter()
                result = task.run()
                end = time.perf_counter()
                if number:  # round 0 warms up
                    times.append(end - begin)
                if number in (0, rounds):
                    task.check(result)
                del result
    finally:
        if collecting:
            gc.enable()
    return seconds


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median over the rounds of the ratio in a round."""
    return statistics.median(a / b for a, b in zip(above, below))


def measure_sample(
    sample: Sample, bits: int, rounds: int = ROUNDS, peers: Peers | None = None
) -> dict[str, Any]:
    """The case of one sample, see `run`."""
    q = quantize(sample.state - sample.track, bits)
    counts, n = q.counts, sample.n
    shuffled = None
    if n <= LARGE:
        codes = np.random.default_rng(0).permutation(q.codes)
        shuffled = {c: 8 * encode(replace(q, codes=codes), c).nbytes / n for c in TIMED}
    out, expected = np.zeros(n, np.float32), expected_track(sample, q)
    if n < SMALL:
        rounds *= SMALL_FACTOR
    elif n > LARGE:
        rounds = -(-2 * rounds // 3)
    with Copier() as copy:
        parts = [copies(sample, out, copy)]
        parts += [ours(sample, bits, coder, out, copy, expected) for coder in TIMED]
        parts += [peers(sample, q)] if peers else []
        tasks = [task for part in parts for task in part.tasks]
        seconds = measure(tasks, rounds)
    tools: dict[str, dict[str, Any]] = {task.tool: {} for task in tasks}
    for task, times in zip(tasks, seconds):
        tools[task.tool][task.action] = {
            "seconds": times,
            "gbs": 4e-9 * n / statistics.median(times),
            "to_copy": median_ratio(seconds[0], times),
        }
    for tool, bits_of in (pair for part in parts for pair in part.bits.items()):
        tools[tool]["bits"] = bits_of()
    return {
        "data": f"{sample.name}:{bits}",
        "n": n,
        "rounds": rounds,
        "zeros": float(counts[0] / n),
        "levels": int(counts.size),
        "entropy": huffman.entropy(counts) / n,
        "shuffled": shuffled,
        "tools": tools,
        "notes": [note for part in parts for note in part.notes],
    }


def run(
    sizes: Sequence[int],
    data: Sequence[tuple[str, int]],
    rounds: int = ROUNDS,
    peers: Peers | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[dict[str, Any]]:
    """Measure each kind of data at each size. report: gets a line about each case.

    Yields:
        A case: a dict of data, n, rounds, zeros (a share), levels, notes; in bits per parameter,
        entropy (of single values) and shuffled (what each coder needs for the symbols in random
        order, None for large n); and tools: name -> bits, and for each action the seconds of all
        rounds, gbs, and to_copy, the speed relative to a copy with all threads.

    Raises:
        RoundTripError: A task gave back something else than it was given.
    """
    for n in sizes:
        sample = None
        for name, bits in data:
            begin = time.perf_counter()
            if sample is None or sample.name != name:
                sample = None  # its memory is needed for the next one
                sample = samples.make(name, n)
            yield measure_sample(sample, bits, rounds, peers)
            seconds = time.perf_counter() - begin
            report(f"{samples.size_name(n)} parameters of {name}:{bits} in {seconds:.0f} s")

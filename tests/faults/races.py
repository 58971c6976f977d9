"""Encode one step again and again, while threads, pieces of work and memory are disturbed.

    PYTHONPATH=. python tests/faults/races.py --minutes 5 --load 2

What a save makes must depend on nothing but what is saved. Each round draws a case (what moves and
how, dtypes, settings) and how it is disturbed:

    order     pieces of work are done one at a time, in any order
    cuts      the work is cut into other pieces
    garbage   all memory that is fresh, used again or given back holds any bits
    held      threads that have taken a piece are held before they look at it
    threads   one to four of them, while others want the interpreter and take and leave memory

Two deltas are encoded, read from their records, looked at, applied to another track and to the one
in place. Records, digests and tracks must be the same to the last bit as those of one thread that
nobody disturbed: another process's with --fresh, where the memory that malloc gives is garbage too.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import xxhash
from common import options_of

import codec
from codec.record import record as records
from codec.record.record import Place
from codec.record.track import Track
from codec.scheme import memory as pages
from codec.scheme import survivors, workers
from codec.scheme.coding import Coding
from codec.scheme.delta import apply
from codec.scheme.limits import UNIT
from codec.scheme.track import digest_sums
from codec.scheme.tracker import Tracker
from codec.scheme.workers import Scratch, _crew
from codec.state.tensors import copy_arrays, layout_of, to_arrays

KINDS = ("normal", "adam", "equal", "tiny", "wide", "sparse", "nan", "still")
DTYPES = ("float32", "float16", "mixed", "bfloat16")  # the last one needs torch: not quick
SETTINGS: list[dict[str, Any]] = [{"bits": 2}, {"bits": 2, "scope": "tensor"}, {"bits": None}]
SETTINGS += [{"bits": 3, "coder": "huffman"}, {"bits": 1, "scope": "tensor", "coder": "huffman"}]
SETTINGS += [{"budget": 0.03}, {"bits": 8}]
WAYS = ("order", "cuts", "garbage", "held", "threads")
QUICK = 10  # cases
REAL = {"spread": workers.spread, "pieces": workers.pieces, "empty": np.empty}

Case = tuple[str, str, int]  # kind, dtype, number of the settings
CASES: list[Case] = list(itertools.product(KINDS, DTYPES, range(len(SETTINGS))))
SIMPLE = [case for case in CASES if case[1] != "bfloat16"]


def main(arguments: list[str] | None = None) -> int:
    """Run; returns how many rounds made something else."""
    options = options_of(
        __doc__,
        arguments,
        minutes=(0.0, "how long to run; 0: each case once"),
        cases=(QUICK, "so many of them, if once"),
        load=(0, "processes that keep processors busy"),
        fresh=(False, "compare with another process"),
        noted=(False, "print what each case leads to, and end"),
        seed=(0, "of the disturbances"),
    )
    rng = random.Random(options.seed)
    codec.warm_up()
    cases = CASES
    if not options.minutes and not options.fresh:
        cases = random.Random(1).sample(SIMPLE, options.cases)
    codec.set_threads(1)
    if options.noted:
        print(json.dumps([made(case) for case in cases]))
        return 0
    expected = dict(zip(cases, noted() if options.fresh else map(made, cases)))
    end = time.monotonic() + 60 * options.minutes
    met: Counter[str] = Counter()
    busy = "while True: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(options.load)]
    try:
        for number in itertools.count():
            if number >= len(cases) and time.monotonic() > end:
                break
            case, seed = cases[number % len(cases)], rng.getrandbits(32)
            ways = disturbances(number, random.Random(seed))
            try:
                with disturbed(ways, random.Random(seed)):
                    got = made(case)
            except Exception as exc:
                got = traceback.format_exception(exc)[-2:]
            met["rounds"] += 1
            if got != expected[case]:
                met["that made something else"] += 1
                print(f"DIFFERS: {case} {'+'.join(ways)} seed {seed}: {got} {expected[case]}")
    finally:
        for other in others:
            other.kill()
            other.wait()
    print(f"{met['rounds']} rounds of {len(cases)} cases, {met['that made something else']} differ")
    return met["that made something else"]


def noted() -> list[list[str]]:
    """What a process of its own makes of every case, in memory that is full of garbage."""
    command = [sys.executable, "-W", "ignore", __file__, "--noted", "--fresh"]
    environment = os.environ | {"MALLOC_PERTURB_": "165"}
    return json.loads(subprocess.run(command, env=environment, stdout=-1, check=True).stdout)


@functools.lru_cache(QUICK)
def states(case: Case) -> list[dict[str, Any]]:
    """Three, of some tensors: one of many units, small ones whose borders are those of nothing,
    two names for the same memory, a part of it, and one that is not contiguous."""
    kind, dtype, _ = case
    rng = np.random.default_rng(CASES.index(case))
    sizes = {"w": 5 * UNIT + 77, "b": 300, "v": UNIT - 5, "s": 9, "m": 90 * 70}
    values = {name: rng.normal(size=n) for name, n in sizes.items()}
    kinds = ("float32", "float16", "float32", "float64") if dtype == "mixed" else (dtype,)
    made = []
    for step in range(3):
        if step:
            values = {name: a + moves(kind, a.size, rng) for name, a in values.items()}
        state = {n: _as(a, t) for (n, a), t in zip(values.items(), itertools.cycle(kinds))}
        state |= {"tied": state["w"], "part": state["w"][1000:9000]}
        state["m"] = state["m"].reshape(90, 70).T
        if kind == "nan" and step == 1:
            state["v"][7] = np.nan
        made.append(state | {"step": np.array(step)})
    return made


def _as(values: np.ndarray, dtype: str) -> Any:
    if dtype == "bfloat16":
        import torch

        return torch.from_numpy(values.astype(np.float32)).bfloat16()
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def moves(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """By how much n elements move in a step."""
    noise = rng.standard_normal(n)
    ways: dict[str, Callable[[], Any]] = {
        "adam": lambda: np.sign(noise) * 3e-4 * (1 + 0.01 * np.abs(noise)),
        "equal": lambda: np.full(n, 0.5),
        "tiny": lambda: noise * 1e-40,
        "wide": lambda: noise * 2.0 ** rng.integers(-100, 100, n),
        "sparse": lambda: noise * (rng.random(n) < 0.003),
        "still": lambda: noise * 0.0,
    }
    moved: np.ndarray = ways.get(kind, lambda: noise * 1e-3)()
    return moved


def made(case: Case) -> list[str]:
    """Digests of all that two deltas and their readers make."""
    first, *others = states(case)
    coding = Coding(**{"bits": None} | SETTINGS[case[2]])
    layout = layout_of(first)
    with np.errstate(over="ignore", invalid="ignore"):
        track = Track.of(layout, copy_arrays(to_arrays(first, layout)))
        follower, tracker = track.copy(), Tracker.resume(track, coding)
        out = [summary(track.sums)]
        for number, state in enumerate(others):
            step = tracker.prepare(state)
            place = Place(number, "0" * 16, "0" * 32)
            data = records.dump_delta(place, track.digest_after(step), step)
            record = records.load(data, "a record")
            read = records.delta_of(record, follower)
            records.preview_checked(record, read, follower, step)
            elsewhere = {k: np.empty_like(a) for k, a in follower.arrays.items()}
            apply(read, follower.arrays, elsewhere)
            records.apply_checked(record, read, follower)
            tracker.commit(step)
            assert summary(elsewhere) == summary(follower.arrays) == summary(track.arrays)
            assert digest_sums(layout, follower.arrays) == follower.sums == track.sums
            out += [xxhash.xxh3_64(data).hexdigest(), summary(follower.arrays)]
    return out


def summary(got: Mapping[str, Any]) -> str:
    """Of arrays or numbers by name."""
    h = xxhash.xxh3_64()
    for name, value in got.items():
        h.update(name.encode() + (value.tobytes() if hasattr(value, "tobytes") else b"%d" % value))
    return h.hexdigest()


# Disturbances.


def disturbances(number: int, rng: random.Random) -> Sequence[str]:
    """One of each kind in turn, then several at once."""
    if number < QUICK:
        return (WAYS[number % len(WAYS)], "garbage")
    return tuple(way for way in WAYS if rng.random() < 0.5)


@contextmanager
def disturbed(ways: Sequence[str], rng: random.Random) -> Iterator[None]:
    """Everything inside is."""
    with ExitStack() as stack:
        if "garbage" in ways:
            stack.enter_context(garbage(rng.getrandbits(32)))
        count = mock.Mock(count=lambda: Late(rng.getrandbits(32)))
        for way, name, other in (
            ("cuts", "pieces", cutting(rng)),
            ("order", "spread", in_any_order(rng)),
            ("held", "itertools", count),
        ):
            if way in ways:
                stack.enter_context(mock.patch.object(workers, name, other))
        if "threads" in ways:
            stack.enter_context(crowd())
        codec.set_threads(rng.randint(2 if {"held", "threads"} & set(ways) else 1, 4))
        try:
            yield
        finally:
            codec.set_threads(1)


def in_any_order(rng: random.Random) -> Callable[..., None]:
    """`spread`, in this thread alone, each piece with other scratch memory."""

    def spread(work: Callable[[int, Scratch], None], n: int) -> None:
        for i in rng.sample(range(n), n):
            with workers.scratch() as scratch:
                work(i, scratch)

    return spread


def cutting(rng: random.Random) -> Callable[..., list[tuple[int, int]]]:
    """`pieces`, of any size."""

    def pieces(n: int, **_: Any) -> list[tuple[int, int]]:
        inner = rng.sample(range(1, n), min(rng.randrange(12), n - 1)) if n > 1 else []
        bounds = [0, *sorted(inner), n] if n else []
        return list(itertools.pairwise(bounds))

    return pieces


class Late:
    """itertools.count whose callers now and then wait once they have their number."""

    def __init__(self, seed: int) -> None:
        self._numbers, self._rng = itertools.count(), random.Random(seed)

    def __next__(self) -> int:
        number = next(self._numbers)
        if self._rng.random() < 0.5:
            time.sleep(self._rng.choice([0, 1e-4, 1e-3]))
        return number


@contextmanager
def crowd() -> Iterator[None]:
    """Two threads of Python want the interpreter often, and leave memory full of garbage."""
    over = threading.Event()
    interval = sys.getswitchinterval()

    def crowding(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not over.is_set():
            taken = [np.full(int(2 ** rng.uniform(4, 18)), 0xA5, np.uint8) for _ in range(9)]
            over.wait(1e-4 * len(taken) * rng.random())

    crew = [threading.Thread(target=crowding, args=(i,)) for i in range(2)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in crew:
            thread.start()
        yield
    finally:
        over.set()
        sys.setswitchinterval(interval)
        for thread in crew:
            thread.join()


@contextmanager
def garbage(seed: int) -> Iterator[None]:
    """All memory that nobody has written to yet, or that is used again, holds any bits."""
    bits = np.random.default_rng(seed).integers(0, 256, 2**16 + 13, np.uint8)

    def spoil(array: np.ndarray) -> None:
        if array.size and array.dtype != object:
            flat = array.reshape(-1).view(np.uint8)
            flat[:] = np.resize(bits, flat.size)

    def empty(*args: Any, **kwargs: Any) -> np.ndarray:
        array: np.ndarray = REAL["empty"](*args, **kwargs)
        spoil(array)
        return array

    class Spoiled(pages.Pages):
        def __init__(self, nbytes: int) -> None:
            super().__init__(nbytes)
            spoil(self.content)

        def give_back(self, begin: int, end: int) -> None:
            super().give_back(begin, end)
            spoil(self.content[begin:end])

    @contextmanager
    def scratch() -> Iterator[Scratch]:
        with lend() as mine:
            for held in vars(mine).values():
                for array in held if isinstance(held, tuple) else [held]:
                    spoil(array)
            yield mine

    def borrow(rooms: Any, n: int, itemsize: int) -> Any:
        @contextmanager
        def borrowed() -> Iterator[Any]:
            with room(rooms, n, itemsize) as s:
                for array in (s.marks, s.codes, s.numbers):
                    spoil(array)
                yield s

        return borrowed()

    lend, room = workers.scratch, survivors._MemoryPool.borrow
    with ExitStack() as stack:
        for owner, name, new in (
            (np, "empty", empty),
            (workers, "scratch", scratch),
            (survivors, "Pages", Spoiled),
            (workers, "Pages", Spoiled),
            (pages, "Pages", Spoiled),
            (survivors._MemoryPool, "borrow", borrow),
        ):
            stack.enter_context(mock.patch.object(owner, name, new))
        with _crew.lock:
            _crew.idle.clear()
        yield


if __name__ == "__main__":
    sys.exit(min(main(), 1))

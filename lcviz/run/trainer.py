"""The thread of a run: it trains, saves through the codec, and measures."""

from __future__ import annotations

import math
import threading
import time

import torch

import codec

from .controls import Controls
from .live_model import LiveModel
from .past import Seconds
from .saved_step import save_step
from .saved_steps import SavedSteps
from .snapshot import TRAINING, Losses, RunSettings, Status, describe_divergence


class Trainer:
    """Trains a live model in a thread until the status says that the run is over.

    Each restart of a run makes a new trainer; it owns the live model, which a kill loses. settings:
    of the run. controls, steps, seconds: the run's, which the thread follows and fills. name: of
    the thread.
    """

    def __init__(
        self,
        name: str,
        settings: RunSettings,
        live: LiveModel,
        controls: Controls,
        steps: SavedSteps,
        seconds: Seconds,
    ) -> None:
        self.live = live
        self._settings, self._controls = settings, controls
        self._steps, self._seconds = steps, seconds
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)

    def save(self) -> None:
        """Save through the codec, take the delta apart, and measure losses if there is time.

        The base and the first delta are always measured: a page needs a first loss.
        """
        saved = save_step(self.live, self._controls.iteration)
        self.live.track = saved.track
        self._steps.add(saved)
        share, spent = self._settings.loss_share, self._seconds
        has_time = share is None or spent.losses <= share * (spent.wall + spent.idle)
        if has_time or len(self._steps.checkpoints) <= 2:
            self._measure()
        self._steps.note(self._seconds)

    def _work(self) -> None:
        # One thread a run: the models are too small to gain from more, the other core is free for
        # the page, and sums come out the same every time.
        torch.set_num_threads(1)
        become = self._controls.become
        try:
            while self._may_iterate():
                started = time.monotonic()
                self._iterate()
                waited = time.monotonic()
                if self._controls.iteration >= self._settings.interval:  # there is a picture to see
                    self._controls.keep_pace(started)
                self._seconds.idle += time.monotonic() - waited
            if self._controls.status == Status.DYING:
                self._measure()
        except codec.LccError as exc:
            become(Status.FAILED, f"Saving failed: {exc}. Every earlier checkpoint still restores.")
        except Exception as exc:  # only the page can show it: no caller waits for this thread
            become(Status.FAILED, f"Training stopped on an unexpected error: {exc!r}")
            raise
        finally:
            self.live.checkpointer.close()

    def _may_iterate(self) -> bool:
        """Wait until the run may train; False if it is over. Measures the newest losses first."""
        controls = self._controls
        while True:
            with controls.changed:
                if controls.at_rest() is None:
                    return controls.status in TRAINING
            self._measure()
            with controls.changed:
                at_rest = controls.at_rest()  # again: the status may have changed meanwhile
                if at_rest is None:
                    continue
                controls.become(*at_rest)
                if controls.status == Status.FINISHED:
                    return False
                controls.changed.wait()

    def _iterate(self) -> None:
        started = time.perf_counter()
        iteration = self._controls.iteration + 1
        loss = self.live.training.iterate(iteration)
        seconds = time.perf_counter() - started
        if not math.isfinite(loss):
            self._measure()
            text = describe_divergence(self._steps.checkpoints, iteration, loss)
            self._controls.become(Status.FAILED, text)
            return
        with self._controls.changed:
            self._controls.iteration = iteration
            self._seconds.train += seconds
        if iteration % self._settings.interval == 0:
            self.save()
        with self._controls.changed:
            self._seconds.wall += time.perf_counter() - started

    def _measure(self) -> None:
        """Measure the newest checkpoint on the probe, unless that is done already."""
        newest = self._steps.newest
        states = self._steps.states(newest.step)
        if newest.losses or states is None:
            return
        started = time.perf_counter()
        probe = self.live.training.task.probe_metric
        live = probe(states.live)
        restored = probe(self.live.track) if newest.kind == "delta" else live
        self._steps.add_losses(Losses(live[0], restored[0], live[1], restored[1]))
        self._seconds.losses += time.perf_counter() - started

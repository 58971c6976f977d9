"""One live training run with its chain on disk: trained in a thread, killed and restored.

The thread owns the model; all others get immutable snapshots. A run that nobody watched for a while
pauses itself.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from pathlib import Path

import codec
import demo_models
from demo_models import Task

from .controls import Controls
from .live_model import LiveModel, forget_model, new_model, restarted_model
from .past import Begun, Restarted, Seconds, StoredRun
from .saved_steps import SavedSteps
from .snapshot import DEAD, NEXT, TRAINING, RunError, RunSettings, Snapshot, Status
from .trainer import Trainer


class Run(Controls):
    """One training run with its chain on disk.

    settings: see `RunSettings`. path: the chain directory, which must not exist, unless `past` is
    given; the run owns it, and `close` deletes it. What pages show of its steps is stored beside
    it. saved: its steps. past: the stored run to continue, see `reopened`. Raises RunError,
    demo_models.DataError or codec.LccError for settings that cannot be used.
    """

    def __init__(
        self, run_id: str, settings: RunSettings, path: Path, past: StoredRun | None = None
    ) -> None:
        settings.check()
        super().__init__(settings.interval, settings.stop_after)
        self.id, self.settings, self.path = run_id, settings, path
        self.task: Task = demo_models.make_task(
            settings.model, settings.data, seed=settings.seed, folder=settings.folder
        )
        self.saved = past.saved if past else SavedSteps(path.parent)
        self._seconds = past.seconds if past else Seconds()
        self._kills, self._restarts = (past.kills, past.restarts) if past else ([], [])
        self._steering = threading.Lock()  # held while the thread is ended or another one started
        if past is None:
            self.saved.note(Begun(settings))
            self._trainer = self._trainer_of(new_model(self.task, settings, path))
            self._trainer.save()
        else:
            self._trainer, self.iteration = self._trainer_of(self._loaded()), past.step
            self._restarts.append(past.step)
            self.saved.note(Restarted(past.step))
            self.message = f"The server was restarted. This run goes on from step {past.step}."
        self._trainer.thread.start()

    @classmethod
    def reopened(cls, run_id: str, path: Path) -> Run:
        """The run of a process that has ended: paused at the newest step that is stored whole.

        Raises RunError, demo_models.DataError, codec.LccError, OSError, or whatever
        unpickling a damaged file raises.
        """
        return cls(run_id, (past := StoredRun.recover(path)).settings, path, past)

    def snapshot(self) -> Snapshot:
        """The run as it is now."""
        with self.changed:
            return Snapshot(
                Status.PLAYING if self.status in (*TRAINING, Status.DYING) else self.status,
                self.message,
                self.iteration,
                self.saved.checkpoints,
                self._seconds.train,
                self._seconds.wall,
                tuple(self._kills),
                tuple(self._restarts),
            )

    def wait(self, timeout: float | None = None) -> Snapshot:
        """Block until the run is at rest, or the timeout in seconds is over."""
        busy = (*TRAINING, Status.DYING, Status.RESTORING)
        with self.changed:
            self.changed.wait_for(lambda: self.status not in busy, timeout)
            return self.snapshot()

    def kill(self) -> None:
        """Crash after the current iteration and its save, if it has one.

        The thread ends and all that is only in memory is lost; the chain on disk and the snapshots
        stay. Does nothing for a run that is dead already. Raises RunError if there is no delta yet,
        or the run has failed or is closed.
        """
        if self.status in DEAD:  # also while another tab has it restored
            return
        with self._steering:
            with self.changed:
                if self.status in DEAD:
                    return
                if self.saved.newest.kind == "base" and Status.DYING in NEXT[self.status]:
                    raise RunError("Only the base is saved yet: go to the next checkpoint.")
                if not self.become(Status.DYING):
                    raise RunError("This run is over already: it cannot be killed.")
            self._trainer.thread.join()
            with self.changed:
                if self.status == Status.DYING:  # it may have failed or been closed meanwhile
                    model = self.task.model.state_dict()
                    self._kills.append(self.snapshot().killed(model, self._seconds.losses))
                    self.saved.note(self._kills[-1])
                    forget_model(self.task)
                    del self._trainer.live  # with its optimizer and track
                    self.become(Status.KILLED)

    def go_on(self) -> None:
        """Restart a killed run from the newest step of its chain, paused.

        A longer chain takes longer. Raises RunError if the run is not killed, or if its chain
        cannot be read; then it stays killed, and its message says why.
        """
        if not self.become(Status.RESTORING):
            raise RunError("This run was not killed: it cannot go on from a checkpoint.")
        self._restore(Status.PAUSED)

    def go_on_in_background(self, patience: float = 0.0) -> None:
        """`go_on` and `play` in the background; if that fails, the run's message says why.

        Returns when that is done, or after `patience` seconds. Does nothing unless the run is
        KILLED.
        """

        def restore() -> None:
            with contextlib.suppress(RunError):  # its text is the run's message
                self._restore(Status.PLAYING)

        with self.changed:
            if self.become(Status.RESTORING):
                threading.Thread(target=restore, name=f"restore-{self.id}", daemon=True).start()
            self.changed.wait_for(lambda: self.status != Status.RESTORING, patience)

    def stop(self) -> None:
        """Make the thread end after the current iteration, without waiting for it."""
        self.become(Status.CLOSED)

    def end(self) -> None:
        """End the thread, which may take as long as one iteration; the chain stays."""
        self.stop()
        with self._steering:
            self._trainer.thread.join()

    def close(self) -> None:
        """`end`, and delete the chain.

        Only the newest states stay in memory, for pages that still show the run.
        """
        self.end()
        shutil.rmtree(self.path, ignore_errors=True)
        self.saved.forget()

    def _trainer_of(self, live: LiveModel) -> Trainer:
        name = f"run-{self.id}"
        return Trainer(name, self.settings, live, self, self.saved, self._seconds)

    def _restore(self, then: Status) -> None:
        """Load the newest step and start a thread; if that fails, the run is KILLED again."""
        with self._steering:
            try:
                trainer = self._trainer_of(self._loaded())
            except BaseException as exc:
                problem = f"This run cannot go on because of an unexpected error: {exc!r}"
                self.become(Status.KILLED, str(exc) if isinstance(exc, RunError) else problem)
                raise
            with self.changed:
                self._trainer, self.iteration = trainer, self.saved.newest.step
                self.become(then, watched=True)  # if closed meanwhile, the thread ends at once
                trainer.thread.start()

    def _loaded(self) -> LiveModel:
        try:
            live = restarted_model(self.task, self.settings, self.path)
        except (codec.LccError, OSError) as exc:
            raise RunError(f"The chain of this run cannot be read. {exc}") from exc
        newest = self.saved.newest.step
        if live.checkpointer.step != newest:
            live.checkpointer.close()
            forget_model(self.task)
            raise RunError(
                f"The record of step {newest} on disk is damaged: this run cannot go on. "
                "Export the rest of its chain, then Reset."
            )
        return live

"""What a training loop holds: saves its state into a chain directory, local or behind a URL.

    with codec.Checkpointer("run.lcc") as checkpoints:
        checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})

`Checkpointer.of` gets the state from the objects of the training. This module turns a state into a
layout, tensors and values. The recorder writes them, in this process or in another one
(background).
"""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self

from codec.chain.chain import Chain
from codec.chain.upkeep import Change, check_keep
from codec.errors import ChainNotFoundError, DTypeError, LccError, SettingsError, WriteError
from codec.record.reason import Reason
from codec.record.settings import Overrides
from codec.record.track import Track
from codec.scheme.coding import UNSET
from codec.scheme.tracker import Tracker
from codec.scheme.warmup import load_beside
from codec.state.moments import with_measures
from codec.state.objects import Objects, has_state
from codec.state.policy import Policy, describe_moments, moments_among
from codec.state.tensors import Layout, signature, to_arrays
from codec.state.tree import Default, Parts, converted, every_name, flatten
from codec.storage.location import Location

from .background import Background
from .call_lock import CallLock
from .history import History
from .recorder import Recorder, Settings, check_resume, check_step
from .saved import Saved
from .termination import Termination

_log = logging.getLogger(__name__)

WHEN_BUSY = ("wait", "skip")


class Checkpointer:
    """Saves the state of a training loop, step by step, as a chain of records.

    The settings from bits to distance are those of `Coding`. A budget also pays for the record's
    header. Without any target the distance is 0.3, which keeps a restart close to one from exact
    weights (docs/explanation/results.md). The scope is "model", the coder "runlength".

    A chain that is resumed keeps its settings, those from bits to distance, and policy. One that is
    given replaces the chain's, and the log says so. What is exact in the chain becomes lossy only
    if a pattern that is given says so.

    With a URL (s3://bucket/run.lcc, or another that fsspec opens) there is no lock. resume=True
    takes the chain over from a writer that has not closed it, or that does not know whether its
    newest save arrived. If that writer still runs, its next `save` raises LockedError. The first
    save of the new writer is a base. `codec.storage.lease` says what is not guaranteed there.

    Attributes:
        path: Where the chain lies.
        coding: The settings of its deltas.
        policy: Which tensors are lossy.

    Args:
        path: The directory, made if it is missing, or its URL.
        policy: Pattern of names, "model/head.*", with / between keys -> "lossy", "exact", "skip" or
            a target, see `Policy`. The first save refuses a pattern that matches nothing, unless
            its mode has a mark: "skip?". The first save of a chain logs which tensors may be
            weights but are stored exactly because of their names, and whether an optimizer's
            moments are lossy.
        restore_work: How long a restore may take, in deltas that change every value of the state.
            A base holds the whole state, so a restore begins there; the more work, the fewer bases
            and bytes. Deltas of few values count less, context codes and exact changes up to 5
            times. By default 34, which takes about 10 times as long as loading the base, or what
            takes 0.3 s if that is more; a number that is given has no such minimum. None: only the
            first save, and saves with most bytes in new tensors, are bases.
        base_every: Also a base after so many deltas.
        keep_steps: How many of the newest steps restore; everything else is removed as soon as they
            do not need it. Bases then come earlier: with up to 3, the chain takes at most 3.2 times
            the bytes of its base, if a delta is at most a sixth of that. None keeps all.
        resume: Continue the chain that is there; its track is rebuilt from disk. Without it, a
            directory that holds records is refused. "required": there must be a chain. Damaged
            records at the end are set aside, with SkippedRecordWarning. A chain that another
            version wrote goes on with a base.
        asynchronous: Another process encodes and writes; `save` returns when it has copied the
            state.
        when_busy: What an asynchronous `save` does while the previous one is being written: "wait"
            for it, or "skip" this step. None, the default, waits; "wait" and "skip" are refused
            without asynchronous.
        storage_options: For the filesystem of a URL; not needed where credentials come from the
            environment.
        default: As in json: called for each object that a state cannot hold (a Path, an Enum, a
            set, a dataclass, a named tuple); returns what to store in its place.
        objects: Objects by name, see `of`, which also loads them.

    Raises:
        SettingsError: A setting is out of range, or makes exact tensors of a chain lossy by
            default.
        LockedError: Another writer is at work there.
        StepOrderError: Records are there, and resume is False.
        ChainNotFoundError: None are there, and resume is "required".
        RecordError, ChainError: No step of the chain to resume restores.
        WriteError: The directory cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        bits: int | None = UNSET,
        scope: str | None = None,
        coder: str | None = None,
        *,
        budget: float | None = None,
        tolerance: float | None = None,
        quantizer: str | None = None,
        distance: float | None = None,
        policy: Mapping[str, str] | None = None,
        restore_work: float | None = UNSET,
        base_every: int | None = None,
        keep_steps: int | None = None,
        resume: bool | str = False,
        asynchronous: bool = False,
        when_busy: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        default: Default | None = None,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        self._objects = None if objects is None else Objects(objects)
        modules = self._objects.modules if self._objects else None
        overrides = Overrides(
            bits, scope, coder, budget, tolerance, quantizer, distance, policy, modules
        )
        check_resume(resume)
        history = History(base_every, keep_steps, restore_work)
        if when_busy not in (None, *WHEN_BUSY):
            raise SettingsError(
                f"when_busy must be one of {', '.join(WHEN_BUSY)}; got {when_busy!r}"
            )
        if when_busy is not None and not asynchronous:
            raise SettingsError(
                f"when_busy={when_busy!r} is for saves in the background; pass asynchronous=True "
                "too, or leave when_busy out"
            )
        self._logged_layout: Layout | None = None
        location = Location(path, storage_options).absolute()
        self.path, self._location, self._closed = location.path, location, False
        self._lock, self._default = CallLock(location), default
        self._termination = Termination(self._lock, self.close)
        settings = Settings(location, overrides, resume, history)
        self._recorder: Recorder | Background
        if asynchronous:
            self._recorder = Background(settings, self._lock, skips=when_busy == "skip")
        else:
            self._recorder = Recorder(settings)
        try:
            self._begin(policy_is_given=policy is not None)
        except BaseException:
            self._recorder.close()
            raise

    @classmethod
    def of(cls, path: str | os.PathLike[str], *, resume: bool | str = True, **named: Any) -> Self:
        """A Checkpointer that knows the objects of a training: it saves and restores their states.

            with codec.Checkpointer.of("run.lcc", model=model, optimizer=optimizer) as checkpoints:
                for step in range(checkpoints.next_step, 1000):
                    train(step)
                    checkpoints.save(step)

        The range stays the loop's own: only the loop knows what a step is, and when to stop.

        If there is a chain, this loads its newest step into the objects, and sets the random states
        of Python, numpy, torch and all devices in use, which every save stores. So make everything
        that draws random numbers before. In the main thread, SIGTERM lets the save under way end
        before it ends the process; a handler of your own is called after that save.

        The weights of each module are lossy by default whatever its name. Those that none of the
        optimizers has, averages for example, are coded by themselves.

        Args:
            path: As for `Checkpointer`.
            resume: As for `Checkpointer`, but True by default.
            named: Settings of a `Checkpointer`; all others are objects by name: modules,
                optimizers, and whatever has state_dict and load_state_dict (schedulers, scalers,
                stateful data loaders, your own), or is a random generator.

        Raises:
            SettingsError: An object has no state to save.
            ShardedError: This process holds only a part of a module.
            StateMismatchError: The chain's state does not fit the objects. Also what `Checkpointer`
                raises.
        """
        known = inspect.signature(cls).parameters
        objects = {k: v for k, v in named.items() if k not in known or has_state(v)}
        needed = {k for k, parameter in known.items() if parameter.default is parameter.empty}
        settings = {k: v for k, v in named.items() if k not in objects or k in needed}
        checkpoints = cls(path, resume=resume, objects=objects, **settings)
        try:
            checkpoints._load()
        except BaseException:
            checkpoints.close()
            raise
        return checkpoints

    def _load(self) -> None:
        if self._objects and (state := self.restore()) is not None:
            self._objects.load(state, f"{self._location}, step {self.step}")

    def _begin(self, *, policy_is_given: bool) -> None:
        """Take over the settings of the recorder, and log what has changed."""
        if isinstance(self._recorder, Recorder):
            load_beside()  # while the training computes its first iterations
        self.coding, self.policy = self._recorder.settings.coding, self._recorder.settings.policy
        is_checked = self.step is not None and not policy_is_given
        self._front = Front(self.policy, self._default, is_checked=is_checked)
        if differences := self._recorder.differences:
            _log.warning("%s: goes on with %s", self._location, differences)
        # A resumed chain logged both when it began, but not moments that come later.
        self._says_models = self._says_moments = self._recorder.step is None
        if (tracker := self._recorder.tracker) is not None:
            self._says_moments = not any(t.measure for t in tracker.track.layout.tensors)

    @property
    def tracker(self) -> Tracker[Track] | None:
        """Holds the track; None before the first save, and if saves are asynchronous."""
        return self._recorder.tracker

    @property
    def step(self) -> int | None:
        """The newest step; None before the first save."""
        return self._recorder.step

    @property
    def next_step(self) -> int:
        """The step after the newest one; 0 before the first save."""
        return 0 if self.step is None else self.step + 1

    def save(self, step: int, state: Mapping[Any, Any] | None = None) -> Saved:
        """Append one record. It is on disk when this returns, unless saves are asynchronous.

        After an error every earlier step restores. An error of the disk, or of a signal handler,
        does not tell whether this step was saved; the next save finds out.

        Args:
            step: The number of the checkpoint, larger than all previous ones.
            state: Mappings, lists and tuples, nested in any way, of torch tensors, numpy arrays,
                numbers, texts, bytes and None. `codec.state.tree.flatten` says which types come
                back as another one. With `of`, what to store besides the objects' states.

        Returns:
            What was written; its kind is "skipped" if the previous save was still under way. An
            asynchronous save returns a `PendingSave`, whose fields wait for the record. If it
            fails, the next call raises its error and saves nothing.

        Raises:
            SettingsError: The step is no integer in range, or a pattern of the policy matches
                nothing in the first state.
            StepOrderError: The step is not after the newest one.
            BudgetError: The budget is too small for any change.
            DTypeError: The state holds something that cannot be stored.
            StateMismatchError: Names cannot be stored.
            RecordError: The record cannot be read again. For example, its header is too long.
            LockedError: Another writer has taken the chain, or another call is under way.
            WriteError: The disk refuses, or this Checkpointer is closed.
        """
        return self._lock.run(self._save_whole, step, state)

    def _save_whole(self, step: int, state: Mapping[Any, Any] | None) -> Saved:
        self._check_open()
        state = self._objects.state(state) if self._objects else state
        if state is None:
            raise DTypeError("save(step) without a state is for codec.Checkpointer.of")
        return self._save(step, state)

    def _save(self, step: int, state: Mapping[Any, Any]) -> Saved:
        return self._append(step, state)

    def _append(
        self,
        step: int,
        state: Mapping[Any, Any],
        *,
        reason: Reason | None = None,
        unchanged: Collection[str] = (),
    ) -> Saved:
        """See `save`. The options are for saves that are not asynchronous.

        reason: write a base, for this reason. unchanged: names; a delta leaves the tensors of these
        names, or below them, as they are in the track.
        """
        self._check_open()
        step = check_step(step, self.step)
        parts, layout = self._front.look_at(state)
        if self._says_models:
            self._says_models = False
            self._suggest_patterns(layout)
        if self._says_moments and layout is not self._logged_layout:
            self._logged_layout = layout
            self._say_moments(layout)
        if isinstance(self._recorder, Background):
            return self._recorder.save(step, layout, parts)
        arrays = to_arrays(parts.tensors, layout)
        names = unchanged and _names_below(parts, unchanged)
        return self._recorder.save(
            step, layout, arrays, parts.values, reason=reason, unchanged=names
        )

    def _suggest_patterns(self, layout: Layout) -> None:
        """Log which exact tensors may be weights under an unknown name."""
        if patterns := self.policy.suggested_patterns(layout.tensors):
            _log.warning(
                "%s: %s: stored exactly, every change to the last bit, which takes several times "
                "the bytes of lossy weights. If these are weights, pass policy={%s} (for averages "
                "of weights 'distance=0.3' instead of 'lossy'), or the modules to "
                "codec.Checkpointer.of. Set them to 'exact' to silence this",
                self._location,
                ", ".join(patterns),
                ", ".join(f"{p!r}: 'lossy'" for p in patterns),
            )

    def _say_moments(self, layout: Layout) -> None:
        """Log that an optimizer's moments are lossy, unless a pattern of the policy says so."""
        of_default = (t for t in layout.tensors if self.policy.mode_by_pattern(t.name) is None)
        if sentence := describe_moments(of_default):
            self._says_moments = False
            _log.warning("%s: %s", self._location, sentence)

    def restore(self) -> dict[Any, Any] | None:
        """The newest state, for a training loop to continue from; None before the first save.

        It is what `codec.restore` returns, except after a delta: then moments in octaves and roots
        get random noise of up to half a rounding step, so that the errors of many restarts do not
        add up. The same checkpoint always gets the same noise. It is not read from the chain,
        unless saves are asynchronous or this Checkpointer is closed.

        Raises:
            DTypeError: A tensor came from torch and torch is not installed.
            LccError: The error of the previous asynchronous save, or of `codec.restore`.
        """
        return self._lock.run(self._restore)

    def _restore(self) -> dict[Any, Any] | None:
        if not self._closed:
            return None if self.step is None else self._recorder.restore(self.step)
        try:
            return Chain(self._location).restore(dithers=True)
        except ChainNotFoundError:
            return None

    def parts_of(self, state: Mapping[Any, Any]) -> Parts:
        """The parts of a state, as `save` stores them. Raises DTypeError or StateMismatchError."""
        return self._front.parts_of(state)[0]

    def compact(self, keep_steps: int = 1) -> Change:
        """Remove all records that the newest steps do not need, see `codec.compact`.

        An asynchronous saving process does this; the call waits for it.

        Raises:
            SettingsError: ``keep_steps`` is out of range.
            ChainNotFoundError: Nothing was saved.
            WriteError: The disk refuses, or this Checkpointer is closed. Every step to keep still
                restores.
            LccError: The error of the previous asynchronous save.
        """
        check_keep("keep_steps", keep_steps)
        return self._lock.run(self._compact, keep_steps)

    def _compact(self, keep_steps: int) -> Change:
        self._check_open()
        return self._recorder.compact(keep_steps)

    def close(self) -> None:
        """Wait for the save under way, and let others write to the directory.

        Afterwards this object saves nothing. In a fork this does nothing, because forked data
        loaders may leave the same `with`.
        """
        if not self._lock.is_fork:
            self._lock.run(self._close)

    def _close(self) -> None:
        self._closed = True
        self._recorder.close()

    def _check_open(self) -> None:
        if self._closed:
            raise WriteError(
                f"{self._location}: this Checkpointer is closed; make a new one with resume=True "
                "to go on, or read what is there with codec.restore"
            )

    def __enter__(self) -> Checkpointer:
        """Raises WriteError once this is closed."""
        self._check_open()
        if self._objects:
            self._termination.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except LccError as exc:
            if error is None:
                raise
            _log.error("the newest save failed too: %s", exc)  # the loop's own error comes first
        finally:
            self._termination.remove()


def _names_below(parts: Parts, places: Collection[str]) -> list[str]:
    """The tensors with a name at or below one of these places."""
    unique = frozenset(places)
    return [
        name
        for name in parts.tensors
        if any(_is_below(tied, unique) for tied in (name, *parts.ties.get(name, ())))
    ]


def _is_below(name: str, places: frozenset[str]) -> bool:
    """Whether a name is one of the places, or below one of them."""
    while name and name not in places:
        name = name.rpartition("/")[0]
    return bool(name)


class Front:
    """Splits states into parts. The layout is kept as long as it describes them.

    default: see `Checkpointer`. is_checked: the patterns have matched a state of this chain before.

    Attributes:
        layout: Of the last state.
    """

    def __init__(
        self, policy: Policy, default: Default | None = None, *, is_checked: bool = False
    ) -> None:
        self._policy, self._default = policy, default
        self._has_checked_policy = is_checked
        self._description: tuple[Any, ...] = ()  # all that the layout depends on
        self.layout = Layout(())

    def look_at(self, state: Mapping[Any, Any]) -> tuple[Parts, Layout]:
        """The parts of a state, and their layout.

        Raises what `flatten` and `spec_of` raise; SettingsError if a pattern of the policy matches
        nothing in the first state that holds anything.
        """
        parts, state = self.parts_of(state)
        if state and not self._has_checked_policy:
            self._policy.check_matches(every_name(state))
            self._has_checked_policy = True
        signatures = list(map(signature, parts.tensors.values(), parts.fingerprints))
        description = parts.structure, list(parts.tensors), signatures, parts.ties
        if description != self._description:
            self._description = ()
            self.layout = self._layout_of(parts)
            self._description = description
        return parts, self.layout

    def parts_of(self, state: Mapping[Any, Any]) -> tuple[Parts, Mapping[Any, Any]]:
        """The parts of a state, and the state as it is stored. Raises what `flatten` raises."""
        if self._default is not None and isinstance(state, Mapping):
            state = converted(state, self._default, self._policy.is_skipped)
        return flatten(state, self._policy.is_skipped), state

    def _layout_of(self, parts: Parts) -> Layout:
        moments = moments_among(parts.tensors)
        ties, spec = parts.ties, self._policy.spec
        specs = [spec(t, name, ties.get(name, ()), moments) for name, t in parts.tensors.items()]
        return Layout(tuple(with_measures(specs)), parts.structure)

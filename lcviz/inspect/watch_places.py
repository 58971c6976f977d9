"""The places that are watched: which chains are there, and what of them may be opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import codec
from codec.errors import SourceError
from codec.inspect import Source

from . import watch_paths
from .watch_paths import Target, is_folder


class Places:
    """Chains, and folders of chains in which new ones may appear; none of them has to exist yet.

    Args:
        places: Paths and URLs.
        may_follow: Raises SourceError for a path that must not be opened. It is asked about
            folders and records below a place that are links out of it; a place itself may be a
            link.
        open_remote: Opens a URL; None: as `codec.Chain` does.

    Attributes:
        targets: The places, each once.
    """

    def __init__(
        self,
        places: Sequence[str],
        may_follow: Callable[[Path], None] | None = None,
        open_remote: Callable[[str], Source] | None = None,
    ) -> None:
        self.targets: tuple[Target, ...] = tuple(dict.fromkeys(map(watch_paths.target_of, places)))
        self._paths = [place for place in self.targets if isinstance(place, Path)]
        self._may_follow = may_follow
        self._open_remote = open_remote

    @property
    def printed(self) -> tuple[str, ...]:
        """The places without secrets."""
        return tuple(map(watch_paths.printed, self.targets))

    @property
    def missing(self) -> tuple[str, ...]:
        """Paths on this machine where nothing exists yet."""
        return tuple(str(path) for path in self._paths if not os.path.exists(path))

    @property
    def foreign(self) -> tuple[str, ...]:
        """For each place with checkpoints of another kind: the name of one of them."""
        return tuple(filter(None, map(watch_paths.foreign, self._paths)))

    def chains(self, most: int) -> list[Target]:
        """All chains, by place and then by name.

        Of more than `most`, those that are places and those that changed last, which include all
        that are being written.
        """
        targets = list(dict.fromkeys(self._all_chains()))
        order = sorted(targets, key=lambda t: (t not in self.targets, -changed(t)))
        chosen = set(order[:most]) if len(targets) > most else set(targets)
        return [target for target in targets if target in chosen]

    def _all_chains(self) -> Iterator[Target]:
        for place in self.targets:
            if isinstance(place, Path) and is_folder(place) and not watch_paths.is_chain(place):
                if not watch_paths.can_be_listed(place):
                    yield place  # shown as a run, with the reason
                for path in watch_paths.chains_below(place):
                    if self._allowed(path, place):
                        yield path
            else:
                yield place

    def open(self, target: Target) -> codec.Chain:
        """A chain at or below a place, as it is now.

        Raises what codec.Chain raises, and SourceError if a record is a link that must not be
        followed.
        """
        if isinstance(target, str):
            return codec.Chain(self._open_remote(target) if self._open_remote else target)
        chain = codec.Chain(target)
        if target in self.targets or not is_folder(target):
            return chain
        place = next(path for path in self._paths if path in target.parents)
        for path in watch_paths.linked_records(target):
            if not self._allowed(path, place):
                raise SourceError(
                    f"{path.name}: is a link to what this server does not open; put the record "
                    "itself there"
                )
        return chain

    def _allowed(self, path: Path, place: Path) -> bool:
        if self._may_follow is None or not watch_paths.leads_out(path, place):
            return True
        try:
            self._may_follow(path)
        except SourceError:
            return False
        return True


def changed(folder: Target | None) -> int:
    """When something was last put into a folder or taken out of it, ns; 0 if that is not known."""
    try:
        return folder.stat().st_mtime_ns if isinstance(folder, Path) else 0
    except (OSError, ValueError):
        return 0

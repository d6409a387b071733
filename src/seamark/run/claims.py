"""Claims, by which exactly one of many workers gets a matching run or group.

A claim is a file in the project's folder (`Folders`) or a row of a server's table (`Served`). A
claimant updates its view of the run and evaluates the query again, because the last claimant may
have changed the queried values.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.reservations import Claim, Claims, claimant
from seamark.paths import PROJECT_LOG
from seamark.run.values import gather
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.journal.reservations import ClaimState
    from seamark.reading.catalog import Catalog, Ref
    from seamark.remote.http.catalog import RemoteCatalog
    from seamark.run.recorder import Recorder


log = logging.getLogger("seamark")

CLAIMED_BY: Final = "sys/claimed_by"
"""Path of the claimant of a run, which deletes it when it releases the run."""
_GROUPS: Final = "groups"
"""Folder of the claims of groups."""
_PATIENCE_S: Final = 5.0
"""Time limit for journals of the last claimant to appear on the disk, in seconds."""
_PAUSE_S: Final = 0.05
_TRIES: Final = 5
_AT_ONCE: Final = 200
"""Number of runs in one request to a server."""


class Folders:
    """Claims by files; see `seamark.journal.reservations`.

    Args:
        root: Root of the runs.
        index: Catalog of the runs.
        groups: Whether groups are claimed instead of runs.
    """

    is_far = False
    """Whether requests go over a network."""

    def __init__(self, root: Path, index: Catalog, *, groups: bool = False) -> None:
        self._root, self._now_ns, self._groups = root, index.now_ns, groups

    def _claims(self, project: str) -> Claims:
        return Claims(self._root, project, (_GROUPS,) if self._groups else ())

    def _log(self, ref: Ref) -> RunFolder:
        project, name = ref
        return RunFolder(self._root, project, PROJECT_LOG if self._groups else name)

    def take(self, refs: Sequence[Ref]) -> Iterator[tuple[Ref, Claim]]:
        """Claim the unclaimed ones in this order, and yield each."""
        states: dict[str, Mapping[str, ClaimState]] = {}
        for ref in refs:
            project, name = ref
            claims = self._claims(project)
            if project not in states:
                states[project] = claims.states()
            now = states[project].get(name)
            if now and not claims.is_free(name, now, self._log(ref), self._now_ns()):
                continue
            claim = claims.take(name, 1 if now is None else now.number + 1)
            if claim is not None:
                yield ref, claim

    def is_up_to_date(self, ref: Ref, claim: Claim) -> bool:
        """Wait until the journals are as long as when the last claimant released them."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            here = self._log(ref).sizes()
            if all(here.get(writer, 0) >= at for writer, at in claim.positions.items()):
                return True
            if time.monotonic() > until:
                return False
            time.sleep(_PAUSE_S)

    def holds(self, ref: Ref, claim: Claim) -> bool:
        """Return whether there is no newer claim."""
        return self._claims(ref[0]).holds(claim)

    def release(self, ref: Ref, claim: Claim, positions: Mapping[str, int]) -> None:
        """Release a claim by a file of its own."""
        self._claims(ref[0]).release(claim, positions)


class Served:
    """Claims by transactions of a server."""

    is_far = True

    def __init__(self, catalog: RemoteCatalog, *, groups: bool = False) -> None:
        self._catalog, self._groups = catalog, groups

    def take(self, refs: Sequence[Ref]) -> Iterator[tuple[Ref, Claim]]:
        """Claim the unclaimed ones; see `Folders.take`."""
        left = list(refs)
        while left:
            some, facts = left[:_AT_ONCE], claimant()
            found = self._catalog.take_claim(some, facts, groups=self._groups)
            if found is None:
                left = left[_AT_ONCE:]
                continue
            ref, number = found
            yield ref, Claim(ref[1], number, facts["key"], facts)
            left = left[left.index(ref) + 1 :]

    def is_up_to_date(self, ref: Ref, claim: Claim) -> bool:
        """Wait until the server has folded all data that it had at the time of the claim."""
        log = (ref[0], PROJECT_LOG) if self._groups else ref
        for _ in range(_TRIES):
            self._catalog.losses([log])  # a small request, which waits briefly for the fold
            if not self._catalog.behind:
                return True
        return False

    def holds(self, ref: Ref, claim: Claim) -> bool:
        """Return whether there is no newer claim."""
        return self._catalog.holds_claim(ref, claim.number, claim.key, groups=self._groups)

    def release(self, ref: Ref, claim: Claim, positions: Mapping[str, int]) -> None:
        """Release a claim; the server knows how much of the journals it has."""
        self._catalog.release_claim(ref, claim.number, claim.key, groups=self._groups)


Place = Folders | Served
"""Place in which claims are made."""


class Hold:
    """A claim of this process, until it is released or another process takes it over."""

    def __init__(self, place: Place, ref: Ref, claim: Claim) -> None:
        self.ref, self.claim = ref, claim
        self._place = place
        self._recorder: Recorder | None = None
        self._pid = os.getpid()
        self._open = True

    def begin(
        self,
        recorder: Recorder,
        path: str = CLAIMED_BY,
        on_loss: Callable[[], object] = lambda: None,
    ) -> None:
        """Record this process as the claimant."""
        self._recorder, self._path, self._on_loss = recorder, path, on_loss
        recorder.values.assign_quietly({path: claimed_by(self.claim.facts)})

    def look(self) -> None:
        """Check whether another process holds the claim now; on another thread if that is slow."""
        if self._place.is_far:
            threading.Thread(target=self.is_lost, name="seamark-claim", daemon=True).start()
        else:
            self.is_lost()

    @property
    def _is_held(self) -> bool:
        """Whether this process made the claim and still holds it; a forked copy does not."""
        return self._open and self._pid == os.getpid()

    def is_lost(self) -> bool:
        """Return whether another process holds the claim, and warn once; False if unknown."""
        if not self._is_held:
            return False
        try:
            held = self._place.holds(self.ref, self.claim)
        except (SeamarkError, OSError) as error:
            log.debug(
                "seamark: cannot determine whether %s is still claimed: %s", self.ref[1], error
            )
            return False
        if not held:
            self._open = False
            log.warning(
                "seamark: %s of project %s is claimed by another process, because this one "
                "was silent for so long that it counted as crashed. Its further records do not "
                "change the state",
                self.ref[1],
                self.ref[0],
            )
            if self._recorder is not None:
                self._on_loss()
        return not held

    def end(self) -> bool:
        """Record that this process no longer holds the claim; return whether it did."""
        recorder = self._recorder
        if not self._is_held or self.is_lost():
            return False
        if recorder is not None and recorder.recording:
            with recorder.guard("claim", "the end of a claim could not be recorded"):
                recorder.values.record_op({"op": "delete", "paths": [self._path]})
        return True

    def release(self) -> bool:
        """Release the claim; return whether this process still held it. Never raises."""
        if not self.end():
            return False
        self._open = False
        recorder = self._recorder
        positions = self.claim.positions if recorder is None else recorder.positions()
        try:
            self._place.release(self.ref, self.claim, positions)
        except (SeamarkError, OSError) as error:
            log.warning(
                "seamark: %s could not be released, and counts as claimed until 90 s after this "
                "process has ended: %s",
                self.ref[1],
                error,
            )
        return True


def claimed_by(facts: Mapping[str, Any]) -> str:
    """Return the readable name of a claimant: ``ada@node7:4121``."""
    user = facts.get("user")
    host = f"{facts.get('host')}:{facts.get('pid')}"
    return f"{user}@{host}" if user else host


def check_set(values: object) -> dict[str, Any]:
    """Check and return the values that a claim records, before anything is claimed."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise argument_error(values, "set", "a mapping of paths to values")
    for path, value in values.items():
        gather(path, value)
    return dict(values)


def place_of(index: Catalog, place: Path | str, *, groups: bool = False) -> Place:
    """Return the place in which the runs or groups of a catalog are claimed."""
    if isinstance(place, Path):
        return Folders(place, index, groups=groups)
    from seamark.remote.http.catalog import RemoteCatalog

    assert isinstance(index, RemoteCatalog)  # noqa: S101 - the client of a server
    return Served(index, groups=groups)


def first_free(place: Place, refs: Iterable[Ref], matches: Callable[[Ref], bool]) -> Hold | None:
    """Claim and return the first free run or group that still matches, or None."""
    for ref, claim in place.take(list(refs)):
        hold = Hold(place, ref, claim)
        with contextlib.ExitStack() as otherwise:
            otherwise.callback(hold.release)
            if place.is_up_to_date(ref, claim) and matches(ref):
                otherwise.pop_all()
                return hold
    return None

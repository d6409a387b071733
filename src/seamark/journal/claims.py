"""Claims: who of many processes works on a run, settled by files that only one can make.

Claim n of a run is the file ``<project>/.claims/<run id>.<n>``, and ``<run id>.<n>.released`` says
that it was given back. Nothing is locked, renamed or rewritten, so that this works on any disk that
several machines share, and folders can be merged. What lies there may be a stranger's.

Where folders are merged, two machines may have made the same claim: the file that is left says who
has it. That the other one gave its own back says nothing about this one: each file has the key of
its claim, and where the place of a release is taken, the key is in the name, too.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.headers import header_of
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.journal.reservations import Reservations
from seamark.process.interrupts import let_pass
from seamark.process.liveness import process_alive, process_facts

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.folder import RunFolder

__all__ = [
    "CLAIMS",
    "MOST_CLAIMS",
    "Claim",
    "ClaimState",
    "Claims",
    "claimant",
    "has_lapsed",
    "is_same_process",
]

CLAIMS: Final = ".claims"
"""The folder, in that of a project, in which its runs are claimed."""
MOST_CLAIMS: Final = 10**15 - 1
"""There is no greater number; a stranger's folder may say so."""

_NAME: Final = re.compile(r"(.+)\.([1-9][0-9]{0,14})(\.released(?:\.[0-9a-f]{16})?)?")
_RELEASED: Final = ".released"
_KEY: Final = re.compile("[0-9a-f]{16}")
_AHEAD_NS: Final = 3600 * 10**9
"""A sign of life further ahead of the clock than this is nobody's."""
_PROCESS: Final = ("host", "boot", "pid", "start", "pid_namespace")
"""What the header of a journal and a claim say of a process, which tells it from all others."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """State of the newest claim of a run or a group.

    Attributes:
        number: Which it is, 1-based.
        held: Whether nobody released it, and it is a claim at all.
    """

    number: int
    held: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that this process made.

    Attributes:
        name: What was claimed: a run's id, or a group's name.
        number: Which claim of it, 1-based.
        key: Random; the file holds it, so that another machine's is known when folders are merged.
        facts: Of the process.
        positions: Up to where the journals of earlier claimants have to be read, bytes by writer.
    """

    name: str
    number: int
    key: str
    facts: Mapping[str, Any]
    positions: Mapping[str, int] = field(default_factory=dict)


def claimant() -> dict[str, Any]:
    """Return what a claim says of the process that makes it."""
    return {**process_facts(), "key": secrets.token_hex(8), "t": time.time_ns()}


def is_same_process(header: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether the process that wrote a journal is the one of a claim."""
    return header.get("pid") is not None and all(
        header.get(one) == facts.get(one) for one in _PROCESS
    )


def has_lapsed(facts: Mapping[str, Any], seen_ns: int, now_ns: int, *, here: bool = True) -> bool:
    """Return whether a claimant counts as crashed: as for runs, it is gone, or silent for 90 s.

    Args:
        facts: Of its process.
        seen_ns: Its last sign of life, nanoseconds since the Unix epoch.
        now_ns: The moment.
        here: Whether its process may be on this machine.
    """
    if here and process_alive(facts) is False:
        return True
    return not now_ns - SETTLE_NS <= seen_ns <= now_ns + _AHEAD_NS


class Claims:
    """The claims of the runs of one project below a root, or of its groups.

    Args:
        root: The root.
        project: Project path.
        below: Folders below ``.claims`` in which they are; none for those of runs.
    """

    def __init__(self, root: Path, project: str, below: tuple[str, ...] = ()) -> None:
        self._reservations = Reservations(root / project, CLAIMS, *below)

    def states(self) -> dict[str, ClaimState]:
        """Return the state of the newest claim of everything that was ever claimed.

        What is no file counts as a claim that nobody holds: its number is taken.

        Raises:
            OSError: If they cannot be listed.
        """
        newest: dict[str, int] = {}
        files: set[tuple[str, int]] = set()
        released: set[tuple[str, int]] = set()
        for file, is_file in self._reservations.names().items():
            if (found := _NAME.fullmatch(file)) is None:
                continue
            name, number = found[1], int(found[2])
            if found[3]:
                released.add((name, number))
                continue
            newest[name] = max(number, newest.get(name, 0))
            if is_file:
                files.add((name, number))
        held = files - released
        return {name: ClaimState(number, (name, number) in held) for name, number in newest.items()}

    def is_free(self, name: str, now: ClaimState, log: RunFolder, now_ns: int) -> bool:
        """Return whether the next claim may be made: the newest was released, or has lapsed.

        Args:
            name: What was claimed.
            now: State of its newest claim.
            log: Whose journals show whether the claimant lives.
            now_ns: Nanoseconds since the Unix epoch.
        """
        if not now.held and self._release_of(name, now.number) is not None:
            return True
        return self._lapsed(name, now.number, log, now_ns)

    def _release_of(self, name: str, number: int) -> dict[str, Any] | None:
        """Return what was said when a claim was given back; None if it was not, by its claimant.

        What is no claim is nobody's, and so is given back.
        """
        claim = f"{name}.{number}"
        key = (self._read(claim) or {}).get("key")
        told = self._read(claim + _RELEASED) or {}
        if key is None or told.get("key", key) == key:
            return told
        return self._read(f"{claim}{_RELEASED}.{key}") if _KEY.fullmatch(str(key)) else None

    def _lapsed(self, name: str, number: int, log: RunFolder, now_ns: int) -> bool:
        """Return whether who made a claim counts as crashed.

        Args:
            name: What was claimed.
            number: Which claim.
            log: Whose journals show whether the claimant lives.
            now_ns: Nanoseconds since the Unix epoch.
        """
        facts = self._read(f"{name}.{number}")
        if facts is None:
            return True  # it was taken away meanwhile, or is no file
        told = facts.get("t")
        seen = told if isinstance(told, int) else 0
        if not has_lapsed(facts, seen, now_ns):
            return False
        return has_lapsed(facts, max(seen, _last_sign_ns(log, facts)), now_ns)

    def take(self, name: str, number: int) -> Claim | None:
        """Make claim ``number``; None if somebody else has.

        Raises:
            OSError: If nothing can be written there, or a link is in the place of a folder.
        """
        facts = claimant()
        if number > MOST_CLAIMS or not self._reservations.reserve(
            f"{name}.{number}", json.dumps(facts)
        ):
            return None
        before = self._release_of(name, number - 1) or {}
        told = before.get("positions")
        positions = {
            writer: at
            for writer, at in (told.items() if isinstance(told, dict) else ())
            if isinstance(at, int)
        }
        return Claim(name, number, facts["key"], facts, positions)

    def release(self, claim: Claim, positions: Mapping[str, int]) -> None:
        """Give a claim back; does nothing if it was.

        Args:
            claim: The claim.
            positions: Up to where what the claimant recorded has to be read, bytes by writer id.

        Raises:
            OSError: If nothing can be written there.
        """
        told = json.dumps({"key": claim.key, "t": time.time_ns(), "positions": dict(positions)})
        file = f"{claim.name}.{claim.number}{_RELEASED}"
        reserve = self._reservations.reserve
        if not reserve(file, told) and (self._read(file) or {}).get("key") != claim.key:
            reserve(f"{file}.{claim.key}", told)

    def holds(self, claim: Claim) -> bool:
        """Return whether a claim is still the newest, and this process's.

        Raises:
            OSError: If that cannot be known.
        """
        standing = self.states().get(claim.name)
        if standing is None or standing.number != claim.number:
            return False
        found = self._read(f"{claim.name}.{claim.number}")
        return found is not None and found.get("key") == claim.key

    def forget(self, name: str) -> None:
        """Remove the claims of a run that is no more.

        Raises:
            OSError: If they cannot be removed.
        """
        for file in self._reservations.names():
            if (found := _NAME.fullmatch(file)) and found[1] == name:
                self._reservations.remove(file)

    def _read(self, file: str) -> dict[str, Any] | None:
        """Return what a file holds; None if there is none.

        Of one that holds nothing that can be read, as it is being written, only its time is known.
        """
        if (reserved := self._reservations.read(file)) is None:
            return None
        try:
            found = json.loads(reserved.holder)
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {"t": reserved.made_ns}


def _last_sign_ns(log: RunFolder, facts: Mapping[str, Any]) -> int:
    """Return when a process last wrote to a journal of a run, nanoseconds since the Unix epoch."""
    latest = 0
    for journal in log.journals():
        try:
            if is_same_process(header_of(journal.path), facts):
                with JournalReader(journal.path) as reader:
                    last = reader.last_frame()
                latest = max(latest, 0 if last is None else last.t)
        except OSError as error:
            let_pass(error)
    return latest

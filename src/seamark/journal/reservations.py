"""Reservations: files that only one process can create; numbers and claims based on them.

Nothing is locked, renamed or rewritten. So reservations work on any disk shared by several
machines, and their folders can be merged. A file is written under another name and then linked, so
that it contains its holder from the start. Files may come from an untrusted source.

Claim n of a run is the file ``<project>/.claims/<run id>.<n>``, and ``<run id>.<n>.released`` marks
its release. Two machines may have made the same claim before their folders were merged. The
remaining file decides. Therefore each file contains the key of its claim, and a release by the
other machine does not count. If the name of a release is taken, the key is added to it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from seamark.journal.folder import RunFolder
from seamark.journal.headers import header_of
from seamark.journal.reader import MAX_AHEAD_NS, SETTLE_NS, JournalReader
from seamark.journal.safe import closing_fd, folder_below, open_file, open_folder
from seamark.process.interrupts import let_pass, quietly
from seamark.process.liveness import process_alive, process_facts

_MAX_HOLDER_BYTES: Final = 64 << 10
_NO_LINK_ERRORS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK})
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


class Reserved(NamedTuple):
    """Reservation by ``holder`` (at most 64 KiB), with its time (ns since the Unix epoch)."""

    holder: bytes
    made_ns: int


class Reservations:
    """Reservations in the nested folders ``kind`` below ``base``, which must not be links."""

    def __init__(self, base: Path, *kind: str) -> None:
        self._base, self._kind = base, kind
        self._folder = base.joinpath(*kind)

    def names(self) -> dict[str, bool]:
        """Return the taken names, each with whether it is a file."""
        above = len(self._kind)
        with (
            contextlib.suppress(FileNotFoundError),
            closing_fd(open_folder(self._folder, above)) as fd,
            os.scandir(fd) as entries,
        ):
            return {one.name: one.is_file(follow_symlinks=False) for one in entries}
        return {}

    def reserve(self, name: str, holder: str) -> bool:
        """Reserve a name for a holder; return False if it is taken. Raises OSError for a link."""
        part = f".tmp-{secrets.token_hex(8)}"
        with folder_below(self._base, self._kind) as fd:
            _write(fd, part, holder)
            try:
                os.link(part, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINK_ERRORS:
                    raise
                try:  # a file system without hard links; O_EXCL does not follow links
                    _write(fd, name, holder)
                except FileExistsError:
                    return False
            finally:
                os.unlink(part, dir_fd=fd)
        return True

    def read(self, name: str) -> Reserved | None:
        """Return a reservation; None if it does not exist or is not a file."""
        try:
            fd = open_file(self._folder / name, above=1 + len(self._kind))
        except OSError as error:
            let_pass(error)
            return None
        with closing_fd(fd):
            return Reserved(os.read(fd, _MAX_HOLDER_BYTES), os.fstat(fd).st_mtime_ns)

    def remove(self, name: str) -> None:
        """Remove the reservation of a deleted object; a folder is not a reservation, and stays."""
        with contextlib.suppress(FileNotFoundError), folder_below(self._base, self._kind) as fd:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=fd)


def _write(folder: int, name: str, text: str) -> None:
    with closing_fd(os.open(name, _CREATE_FLAGS, 0o666, dir_fd=folder)) as fd:
        os.write(fd, text.encode())


NUMBERS: Final = ".numbers"
"""Subfolder of a model or artifact in which each version has a file named by its number."""
REVISIONS: Final = ".twins"
"""Subfolder of a project in which revision n of a hash has the file ``<hash>.<n>``."""
MAX_NUMBER: Final = 999_999_999
"""Maximum valid number; a folder of unknown origin may contain greater ones."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


def take_number(
    folder: RunFolder, who: str, known: Collection[int] = (), *, again: bool = False
) -> int:
    """Take the next free number (1-based) below a folder, unique among all processes.

    The file contains ``who``, the id or digest of the version. ``known`` numbers are taken without
    a file, as after a merge. With ``again``, a version keeps its number.
    """

    def is_own(number: int) -> bool:
        found = numbers.read(str(number)) if again else None
        return found is not None and found.holder == who.encode()

    folder.refuse_links()
    numbers = Reservations(folder.path, NUMBERS)
    reserved = sorted(int(name) for name in numbers.names() if _NUMBER.fullmatch(name))
    own = next(filter(is_own, reserved), 0)
    return own or _next_number(numbers, "", who, {*known, *reserved}, is_own)


def take_revision(project: Path, text: str, run: str) -> int:
    """Take the next revision (1-based) of runs whose inputs have the hash ``text``."""
    revisions = Reservations(project, REVISIONS)
    holder = json.dumps({"run": run, **process_facts(), "t": time.time_ns()})
    prefix = f"{text}."
    given = (name.removeprefix(prefix) for name in revisions.names() if name.startswith(prefix))
    taken = {int(one) for one in given if _NUMBER.fullmatch(one)}
    return _next_number(revisions, prefix, holder, taken)


def _next_number(
    reservations: Reservations,
    prefix: str,
    holder: str,
    taken: Collection[int],
    is_own: Callable[[int], bool] = lambda _: False,
) -> int:
    """Reserve the first free number; ``is_own``: whether it was reserved for the same holder."""
    number = max(taken, default=0) + 1
    if number > MAX_NUMBER:  # not a number assigned by Seamark
        number = 1
    while number in taken or not reservations.reserve(f"{prefix}{number}", holder):
        if is_own(number):
            return number
        number += 1
    return number


CLAIMS: Final = ".claims"
"""Subfolder of a project that contains the claims of its runs."""
MAX_CLAIMS: Final = 10**15 - 1
"""Maximum valid claim number; a folder of unknown origin may contain greater ones."""
_CLAIM_FILE: Final = re.compile(r"(.+)\.([1-9][0-9]{0,14})(\.released(?:\.[0-9a-f]{16})?)?")
_RELEASED: Final = ".released"
_CLAIM_KEY: Final = re.compile("[0-9a-f]{16}")
_PROCESS_FIELDS: Final = ("host", "boot", "pid", "start", "pid_namespace")
"""Fields that identify a process in the header of a journal and in a claim."""


@dataclass(frozen=True, slots=True)
class ClaimState:
    """State of the newest claim (1-based) of a run or a group; ``held`` until it is released."""

    number: int
    held: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim by this process of a run (by id) or a group (by name); ``number`` is 1-based.

    The file contains the random ``key``, which distinguishes claims of other machines after a merge
    of folders. ``positions`` are the offsets up to which journals of earlier claimants must be
    read, bytes by writer.
    """

    name: str
    number: int
    key: str
    facts: Mapping[str, Any]
    positions: Mapping[str, int] = field(default_factory=dict)


def claimant() -> dict[str, Any]:
    """Return the description of this process in a claim."""
    return {**process_facts(), "key": secrets.token_hex(8), "t": time.time_ns()}


def is_same_process(header: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether a journal and a claim belong to the same process."""
    return header.get("pid") is not None and all(
        header.get(one) == facts.get(one) for one in _PROCESS_FIELDS
    )


def has_lapsed(facts: Mapping[str, Any], seen_ns: int, now_ns: int, *, here: bool = True) -> bool:
    """Return whether a claimant crashed: ended, if it may be on this host, or silent for 90 s."""
    if here and process_alive(facts) is False:
        return True
    return not now_ns - SETTLE_NS <= seen_ns <= now_ns + MAX_AHEAD_NS


class Claims:
    """Claims of the runs of a project below a root, or in folders below its ``.claims``."""

    def __init__(self, root: Path, project: str, below: tuple[str, ...] = ()) -> None:
        self._reservations = Reservations(root / project, CLAIMS, *below)

    def states(self) -> dict[str, ClaimState]:
        """Return the newest claim of each run or group; entries that are not files are released."""
        newest: dict[str, int] = {}
        files: set[tuple[str, int]] = set()
        released: set[tuple[str, int]] = set()
        for file, is_file in self._reservations.names().items():
            if (found := _CLAIM_FILE.fullmatch(file)) is None:
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
        """Return whether the next claim can be made: the newest was released or has lapsed."""
        if not now.held and self._release_of(name, now.number) is not None:
            return True
        return self._has_lapsed(name, now.number, log, now_ns)

    def _release_of(self, name: str, number: int) -> dict[str, Any] | None:
        """Return the record of a release, or None; an invalid claim counts as released."""
        claim = f"{name}.{number}"
        key = (self._read(claim) or {}).get("key")
        release = self._read(claim + _RELEASED) or {}
        if key is None or release.get("key", key) == key:
            return release
        return self._read(f"{claim}{_RELEASED}.{key}") if _CLAIM_KEY.fullmatch(str(key)) else None

    def _has_lapsed(self, name: str, number: int, log: RunFolder, now_ns: int) -> bool:
        facts = self._read(f"{name}.{number}")
        if facts is None:
            return True  # removed meanwhile, or not a file
        claimed = facts.get("t")
        seen = claimed if isinstance(claimed, int) else 0
        if not has_lapsed(facts, seen, now_ns):
            return False
        return has_lapsed(facts, max(seen, _last_frame_ns(log, facts)), now_ns)

    def take(self, name: str, number: int) -> Claim | None:
        """Make claim ``number``; None if another process has it. OSError if writing fails."""
        facts = claimant()
        if number > MAX_CLAIMS or not self._reservations.reserve(
            f"{name}.{number}", json.dumps(facts)
        ):
            return None
        before = self._release_of(name, number - 1) or {}
        recorded = before.get("positions")
        positions = {
            writer: at
            for writer, at in (recorded.items() if isinstance(recorded, dict) else ())
            if isinstance(at, int)
        }
        return Claim(name, number, facts["key"], facts, positions)

    def release(self, claim: Claim, positions: Mapping[str, int]) -> None:
        """Release a claim, with the positions up to which to read journals, bytes by writer."""
        text = json.dumps({"key": claim.key, "t": time.time_ns(), "positions": dict(positions)})
        file = f"{claim.name}.{claim.number}{_RELEASED}"
        reserve = self._reservations.reserve
        if not reserve(file, text) and (self._read(file) or {}).get("key") != claim.key:
            reserve(f"{file}.{claim.key}", text)

    def holds(self, claim: Claim) -> bool:
        """Return whether a claim of this process is still the newest; OSError if unknown."""
        current = self.states().get(claim.name)
        if current is None or current.number != claim.number:
            return False
        found = self._read(f"{claim.name}.{claim.number}")
        return found is not None and found.get("key") == claim.key

    def forget(self, name: str) -> None:
        """Remove the claims of a deleted run."""
        for file in self._reservations.names():
            if (found := _CLAIM_FILE.fullmatch(file)) and found[1] == name:
                self._reservations.remove(file)

    def _read(self, file: str) -> dict[str, Any] | None:
        # A file without readable content, such as one being written, has only a time.
        if (reserved := self._reservations.read(file)) is None:
            return None
        try:
            found = json.loads(reserved.holder)
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {"t": reserved.made_ns}


def _last_frame_ns(log: RunFolder, facts: Mapping[str, Any]) -> int:
    latest = 0
    for journal in log.journals():
        with quietly(only=OSError):
            if is_same_process(header_of(journal.path), facts):
                with JournalReader(journal.path) as reader:
                    last = reader.last_frame()
                latest = max(latest, 0 if last is None else last.t)
    return latest

"""Protocol of remotes: runs, batches and errors.

Data that a remote cannot represent is counted in the run, at ``<place>/<kind>``.
"""

# ruff: noqa: N818 - answers of a remote, more than errors

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, runtime_checkable

from seamark.errors import SeamarkError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TypeGuard

    from seamark.journal.folder import RunFolder
    from seamark.journal.shipping import Batch
    from seamark.reading.names import Arrival, Conflict

__all__ = [
    "WORDS",
    "Busy",
    "Diverged",
    "Gap",
    "KeepsByName",
    "KeepsJournals",
    "Missing",
    "Purged",
    "Refused",
    "Remote",
    "RemoteError",
    "RemoteRun",
    "RunKey",
    "Sent",
    "Settles",
    "TooLong",
    "Unfit",
    "Unreachable",
]


WORDS: Final = {
    "artifacts": "artifacts: left out",
    "damaged": "records that cannot be read: left out",
    "files_gone": "files that are not in the run's folder any more: left out",
    "folders": "folders that were recorded as one file: left out",
    "histograms": "histograms: left out",
    "large_integers": "integers beyond 32 bits: sent as floats",
    "lists": "lists: sent as their JSON text",
    "long_texts": "texts above 4 MiB: left out",
    "not_finite": "points that are NaN or infinite: left out",
    "not_finite_values": "values that are NaN or infinite: sent as texts",
    "nulls": "None: sent as a text",
    "other_file_series": "points of file series that are no images, or too large: left out",
    "references": "files that are recorded by their place only: left out",
    "refused": "operations that were refused there",
    "renamed": "paths that are in each other's way: with a _ behind their name",
    "sets": "sets other than tags: sent as texts",
    "statistics": "statistics of series (keep): left out",
}
"""Plain words for each counted kind."""
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """Facts that a remote has about a run.

    `largest_t` is the largest time of a record, ns since the Unix epoch; `journals` has the HEADER
    of each by writer id. `trained` are the paths of the series of numbers that processes wrote
    which trained the run; None if that was not said: it may be any. `resumable` means that it was
    begun but not ended for good, and no owner of it lives.
    """

    largest_t: int = 0
    journals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    last_steps: Mapping[str, float] = field(default_factory=dict)
    trained: frozenset[str] | None = None
    failed: bool = False
    resumable: bool = False
    uri: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Number of bytes of each journal that the remote stores, by writer id."""
        lengths = {writer: header.get("bytes") for writer, header in self.journals.items()}
        return {writer: found for writer, found in lengths.items() if _is_length(found)}

    @property
    def newest_attempt(self) -> int:
        """Number of the newest attempt, 0-based."""
        numbers = [header.get("attempt") for header in self.journals.values()]
        return max((one for one in numbers if type(one) is int and one >= 0), default=0)

    def is_copied(self, sizes: Mapping[str, int]) -> bool:
        """Return whether all that the remote stores is on a disk, whose sizes are given."""
        known = self.sizes
        return all(
            writer in sizes and writer in known and sizes[writer] >= known[writer]
            for writer in self.journals
        )


def _is_length(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


class RunKey(NamedTuple):
    """Key of a run, or with ``.project`` as its run id, of a project's own log.

    Attributes:
        project: Project path.
        run: Run id.
    """

    project: str
    run: str


class Sent(NamedTuple):
    """Answer of a remote to a batch.

    Attributes:
        offset: Number of bytes of the journal that it stores now, from the beginning.
        position: Number of bytes of all journals of the run that it stores; only grows. A reader
            that names it sees at least that much.
        wait_s: Seconds after which the remote would like the next batch; 0 for at once.
    """

    offset: int
    position: int
    wait_s: float = 0.0


class RemoteError(SeamarkError, OSError):
    """A remote did not accept data, or did not answer a question.

    `status` is that of HTTP, or 0; `said` is what it answered, as it wrote it: a stranger's.
    """

    status: int = 0
    said: Mapping[str, Any] = {}


class Unreachable(RemoteError):
    """Error of a remote that cannot be reached or failed; the same may be sent again later."""


class Busy(Unreachable):
    """Error of a remote that asks for a pause of `wait_s` before the next request."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Refused(RemoteError):
    """Refusal of a request from this sender: a token lacks a role, or a limit is exceeded.

    The message says what to do; sending the same again is of no use.
    """


class Unfit(Refused):
    """Refusal of this journal or file from any sender; others may be accepted."""


class TooLong(Unfit):
    """Refusal of so much data at once; smaller parts may be accepted."""


class Missing(Refused):
    """The requested object does not exist, or the user may not know of it."""


class Purged(Refused):
    """The run was purged there and must not come back."""


class Gap(RemoteError):
    """Bytes are missing between the `known` ones that are kept and those that were sent."""

    def __init__(self, message: str, known: int) -> None:
        super().__init__(message)
        self.known = known


class Diverged(RemoteError):
    """Other bytes than were sent are among the `known` ones that the remote stores."""

    def __init__(self, message: str, known: int) -> None:
        super().__init__(message)
        self.known = known


class Remote(Protocol):
    """A place that keeps journals and files of runs.

    Every verb may be called again with the same arguments, from several processes and in any
    order: what is kept already is left as it is. All of them raise `RemoteError`.
    """

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """Return how many bytes of each journal are kept, by file name (``<writer id>.<uid>``)."""

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """Append whole frames to a journal; the first ones come with its 32-byte file header.

        Once this returns, they are kept for good.

        Args:
            run: The run.
            journal: File name.
            offset: Of the first byte in the file.
            data: Bytes of the file.

        Raises:
            Gap: If bytes before ``offset`` are missing there.
            Diverged: If other bytes are kept there from ``offset`` on.
        """

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """Declare that ``length`` bytes from ``offset`` on will never be frames; see `send`."""

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """Return those of some files (SHA-256, hex) whose content is not kept for this project."""

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Send the content of a file; parts that arrived earlier are not sent again.

        Args:
            run: The run.
            digest: SHA-256 of the content, hex.
            size: In bytes.
            file: The content, from its beginning; can seek.
        """

    def close(self) -> None:
        """Let go of connections; harmless when called twice."""


@runtime_checkable
class KeepsJournals(Remote, Protocol):
    """A place from which a run can be resumed, because it also returns stored journals."""

    def opening(self, run: RunKey, seconds: float) -> RemoteRun:
        """Return the facts about a run that a process needs before it continues it.

        The answer may take `seconds`; `Missing` if there is no such run.
        """

    def read(self, run: RunKey, journal: str, offset: int) -> Batch | None:
        """Return whole frames of a journal from an offset on, or a gap; None at its end."""


@runtime_checkable
class KeepsByName(Remote, Protocol):
    """A place that stores the content of journals, but not the journals, and files by their names.

    It is asked the same as any other; files are sent with the journals, from the run's folder.
    """

    def meet(self, run: RunKey, folder: RunFolder) -> None:
        """Take note of where a run lies, before anything else is asked of it. Never fails."""


@runtime_checkable
class Settles(Remote, Protocol):
    """A place that decides which of several arriving runs continues.

    What it is asked again about the same run it answers in the same way. It answers None where it
    cannot say, as a server of an earlier version.
    """

    def arrive(
        self,
        run: RunKey,
        name: str | None,
        conflict: Conflict,
        *,
        make_project: bool,
        versions: Sequence[str] = (),
    ) -> Arrival | None:
        """Return the decision about an arriving run; its name is reserved if it is accepted.

        `versions` are, of an artifact, the digests of all its versions here.
        """

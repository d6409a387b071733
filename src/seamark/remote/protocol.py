"""Protocol of remotes: runs, batches and errors.

Data that a remote cannot represent is counted in the run, at ``<place>/<kind>``.
"""

# ruff: noqa: N818 - answers of a remote rather than errors

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol, runtime_checkable

from seamark.errors import SeamarkError
from seamark.reading.attributes import Opening

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import TypeGuard

    from seamark.journal.folder import RunFolder
    from seamark.journal.shipping import Batch
    from seamark.reading.names import Arrival, Conflict


WORDS: Final = {
    "artifacts": "artifacts: left out",
    "damaged": "unreadable records: left out",
    "files_gone": "files missing in the run's folder: left out",
    "folders": "folders recorded as one file: left out",
    "histograms": "histograms: left out",
    "large_integers": "integers beyond 32 bits: sent as floats",
    "lists": "lists: sent as their JSON text",
    "long_texts": "texts above 4 MiB: left out",
    "not_finite": "points that are NaN or infinite: left out",
    "not_finite_values": "values that are NaN or infinite: sent as texts",
    "nulls": "None: sent as a text",
    "other_file_series": "points of file series that are not images, or too large: left out",
    "references": "files recorded by their location only: left out",
    "refused": "operations that the server refused",
    "renamed": "conflicting paths: with a _ after their name",
    "sets": "sets other than tags: sent as texts",
    "statistics": "statistics of series (keep): left out",
}
"""Description of each counted kind."""
_MAX_INT64 = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RemoteRun(Opening):
    """Facts about a run on a remote, whose address is `uri`."""

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
        """Return whether a disk, given by its journal sizes, has all data of the remote."""
        known = self.sizes
        return all(
            writer in sizes and writer in known and sizes[writer] >= known[writer]
            for writer in self.journals
        )


def _is_length(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_INT64


class RunKey(NamedTuple):
    """Key of a run, or of a project's own log if the run id is ``.project``.

    Attributes:
        project: Project path.
        run: Run id.
    """

    project: str
    run: str

    @classmethod
    def of(cls, folder: RunFolder) -> RunKey:
        """Return the key of the run in a folder."""
        return cls(folder.project, folder.run)


class Sent(NamedTuple):
    """Answer of a remote to a batch.

    Attributes:
        offset: Number of bytes of the journal that are stored now, from its beginning.
        position: Number of stored bytes of all journals of the run; never decreases. A read request
            with this position sees at least these bytes.
        wait_s: Requested delay before the next batch, in seconds; 0 for none.
    """

    offset: int
    position: int
    wait_s: float = 0.0


class RemoteError(SeamarkError, OSError):
    """A remote did not accept data or did not answer a request.

    `status` is the HTTP status, or 0. `said` is the unmodified, untrusted answer.
    """

    status: int = 0
    said: Mapping[str, Any] = {}


class Unreachable(RemoteError):
    """The remote cannot be reached or failed; the same data may be sent again later."""


class Busy(Unreachable):
    """The remote requests a pause of `wait_s` seconds before the next request."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Refused(RemoteError):
    """The remote refuses requests of this sender: a role is missing, or a limit is exceeded.

    The message says what to do. Sending the same data again fails again.
    """


class Unfit(Refused):
    """The remote refuses this journal or file; it may accept others."""


class TooLong(Unfit):
    """The request is too large; smaller parts may be accepted."""


class Missing(Refused):
    """The requested object does not exist, or the user may not see it."""


class Purged(Refused):
    """The run was purged on the remote and must not be sent again."""


class Gap(RemoteError):
    """Bytes are missing on the remote between the `known` stored ones and the sent ones."""

    def __init__(self, message: str, known: int) -> None:
        super().__init__(message)
        self.known = known


class Diverged(RemoteError):
    """Sent bytes differ from the `known` bytes that the remote stores."""

    def __init__(self, message: str, known: int) -> None:
        super().__init__(message)
        self.known = known


class Remote(Protocol):
    """Storage of journals and files of runs in another place.

    Each method may be called again with the same arguments, from several processes and in any
    order; stored data does not change. All methods may raise `RemoteError`.
    """

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """Return the number of stored bytes by journal file name (``<writer id>.<uid>``)."""

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """Append whole frames to a journal; the first batch includes its 32-byte file header.

        The data is stored durably when this returns.

        Args:
            run: The run.
            journal: File name.
            offset: Position of the first byte in the file.
            data: Bytes of the file.

        Raises:
            Gap: If bytes before ``offset`` are missing on the remote.
            Diverged: If the remote stores other bytes from ``offset`` on.
        """

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """Declare ``length`` bytes from ``offset`` on to be permanently invalid; see `send`."""

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """Return the digests (SHA-256, hex) whose content this project does not store."""

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """Send the content of a file; parts that are stored already are not sent again.

        Args:
            run: The run.
            digest: SHA-256 of the content, hex.
            size: Size of the content in bytes.
            file: The content, from its beginning; must be seekable.
        """

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""


@runtime_checkable
class KeepsJournals(Remote, Protocol):
    """Remote from which a run can be resumed, because it also returns stored journals."""

    def opening(self, run: RunKey, seconds: float) -> RemoteRun:
        """Return the state of a run that a process needs to resume it.

        The remote may take `seconds` to answer. Raises `Missing` if there is no such run.
        """

    def read(self, run: RunKey, journal: str, offset: int) -> Batch | None:
        """Return whole frames of a journal from an offset on, or a gap; None at the end."""


@runtime_checkable
class KeepsByName(Remote, Protocol):
    """Remote that stores the records of journals, but not the journals, and files by their names.

    It has the methods of other remotes; files are sent from the run's folder with the journals.
    """

    def meet(self, run: RunKey, folder: RunFolder) -> None:
        """Note the folder of a run; called before all other requests about it. Never raises."""


@runtime_checkable
class Settles(Remote, Protocol):
    """Remote that decides which of several runs of one name continues.

    Repeated requests about one run get the same answer. The answer is None if the remote cannot
    decide, as with a server of an earlier version.
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
        """Return the decision about a new run; its name is reserved if it is accepted.

        `versions` has the digests of all local versions if the run is an artifact.
        """

"""Another root as a remote that says which of several runs goes on: it has an index for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.index.arriving import arrive, arrive_artifact
from seamark.remote.file import FileRemote, root_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seamark.reading.arriving import Arrival, Conflict
    from seamark.remote.protocol import RunKey

__all__ = ["RootRemote", "open_remote"]


def open_remote(uri: str, token: str | None = None) -> RootRemote:
    """Return another root as a remote; nothing is made there yet.

    Raises:
        ArgumentError: If the URI names no folder.
    """
    del token  # who may write there is the file system's to say
    return RootRemote(root_of(uri))


class RootRemote(FileRemote):
    """Sends to another root; see `seamark.remote.protocol.Settles`."""

    def arrive(
        self,
        run: RunKey,
        name: str | None,
        conflict: Conflict,
        *,
        make_project: bool,
        versions: Sequence[str] = (),
    ) -> Arrival:
        """See `seamark.remote.protocol.Settles.arrive`."""
        with self.translate_errors():
            if versions:
                known = (run.run, *versions)
                return arrive_artifact(
                    self.root, run.project, known, conflict, make_project=make_project
                )
            return arrive(
                self.root, run.project, run.run, name, conflict, make_project=make_project
            )

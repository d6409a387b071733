"""Requests with the package ``neptune``, and the interpretation of their answers.

The package's own `execute_operations` repeats a batch whose answer was lost, and nobody would know.
Here a batch is sent once; who sends it looks first what is there.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from seamark.remote.protocol import Busy, Missing, Purged, Refused, RemoteError, Unreachable

__all__ = ["Client", "Seen"]

CONNECT_S: Final = 5.0
ANSWER_S: Final = 60.0
"""How long a request may take, seconds."""
_PAGE: Final = 1000


class Seen(NamedTuple):
    """An attribute as it is there; `kind` is the protocol's, such as ``"floatSeries"``."""

    kind: str
    last_step: float | None = None
    value: Any = None


class Client:
    """Client of one project of a server, which uses the package ``neptune``."""

    def __init__(self, project: str, token: str) -> None:
        from neptune.internal.backends.hosted_neptune_backend import HostedNeptuneBackend
        from neptune.internal.credentials import Credentials

        self.name = project
        self._options = {"connect_timeout": CONNECT_S, "timeout": ANSWER_S}
        with self._translate_errors(Missing):
            self._backend: Any = HostedNeptuneBackend(Credentials.from_token(token))
            self._project = self._backend.get_project(project)
        self._api = self._backend.leaderboard_client.api

    # ---------------------------------------------------------------- runs

    def create(self, custom_id: str) -> str:
        """Return the id of the run that has a custom id; it is made where there is none."""
        with self._translate_errors(Missing):
            found = self._backend.create_run(project_id=self._project.id, custom_run_id=custom_id)
        return str(found.id)

    def expect(self, container: str) -> None:
        """Raise `Purged` unless a run is still there."""
        self._ask("getExperiment", experimentId=container)

    def ping(self, container: str) -> None:
        """Report that the training is alive."""
        self._ask("ping", experimentId=container)

    def attributes(self, container: str) -> dict[str, Seen]:
        """Return the attributes of a run, by path."""
        told = self._ask("getExperimentAttributes", experimentId=container)
        return {one.name: _seen(one) for one in told.attributes}

    def execute(self, container: str, operations: list[dict[str, Any]]) -> list[str]:
        """Execute operations in a request that is sent once; return the failures."""
        told = self._ask("executeOperations", experimentId=container, operations=operations)
        return [str(one.errorDescription) for one in told or []]

    def tail(
        self, container: str, path: str, kind: str, count: int
    ) -> list[tuple[float, int, Any]]:
        """Return step, time (ms) and value of the last points of a series."""
        verb = "getFloatSeriesValues" if kind == "floatSeries" else "getStringSeriesValues"
        asked = {"experimentId": container, "attribute": path}
        total = self._ask(verb, **asked, limit=1, offset=0).totalItemCount
        found: list[tuple[float, int, Any]] = []
        offset = max(0, total - count)
        while offset < total:
            some = self._ask(verb, **asked, limit=min(_PAGE, total - offset), offset=offset).values
            if not some:
                break
            found += [(one.step, int(one.timestampMillis), one.value) for one in some]
            offset += len(some)
        return found

    # ---------------------------------------------------------------- files

    def upload(self, container: str, path: str, ext: str, source: str) -> list[str]:
        """Upload a file, replacing an existing one. Returns the error, if any."""
        from neptune.internal.backends.hosted_file_operations import upload_file_attribute

        with self._translate_errors():
            wrong = upload_file_attribute(
                swagger_client=self._backend.leaderboard_client,
                container_id=container,
                attribute=path,
                source=source,
                ext=ext,
                multipart_config=self._multipart,
            )
        return [str(one) for one in wrong or []]

    def upload_member(self, container: str, path: str, name: str, source: str) -> list[str]:
        """Upload a file into a set of files. Returns the error, if any."""
        from neptune.common.storage.storage_utils import UploadEntry
        from neptune.exceptions import MetadataInconsistency
        from neptune.internal.backends import hosted_file_operations as files

        with self._translate_errors():
            try:
                files._multichunk_upload_with_retry(  # noqa: SLF001 - the public one takes globs
                    UploadEntry(source, name),
                    swagger_client=self._backend.leaderboard_client,
                    query_params={
                        "experimentIdentifier": container,
                        "attribute": path,
                        "subPath": name,
                    },
                    multipart_config=self._multipart,
                    target=files.FileUploadTarget.FILE_SET,
                )
            except MetadataInconsistency as error:
                return [str(error)]
        return []

    @property
    def _multipart(self) -> Any:
        return self._backend._client_config.multipart_config  # noqa: SLF001 - no other way

    # ---------------------------------------------------------------- asking

    def _ask(self, verb: str, **given: Any) -> Any:
        # It asks a second time only where a token has expired: then nothing was done.
        from neptune.common.exceptions import NeptuneAuthTokenExpired

        with self._translate_errors(Purged):
            options = {"_request_options": self._options}
            try:
                return getattr(self._api, verb)(**given, **options).response().result
            except NeptuneAuthTokenExpired:
                return getattr(self._api, verb)(**given, **options).response().result

    @contextlib.contextmanager
    def _translate_errors(self, gone: type[RemoteError] = Purged) -> Iterator[None]:
        try:
            yield
        except RemoteError:
            raise
        except Exception as error:
            raise self._failure(error, gone) from error

    def _failure(self, error: Exception, gone: type[RemoteError]) -> RemoteError:
        kind = type(error).__name__
        response = getattr(error, "response", None)
        status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
        status = status or getattr(error, "status", None)
        words = _plain(getattr(error, "cause", None) or error)  # of a connection that was lost
        if kind in ("ContainerUUIDNotFound", "ObjectNotFound", "MetadataContainerNotFound"):
            return gone("it is not there any more")
        if kind.startswith("ProjectNotFound"):
            return Missing(f"there is no project {self.name} for this token")
        if status == 404:  # noqa: PLR2004 - of HTTP
            return gone("it is not there any more")
        if status == 429:  # noqa: PLR2004 - of HTTP
            return Busy(f"asked too often: {words}", 10.0)
        if kind in ("Unauthorized", "Forbidden", "NeptuneInvalidApiTokenException") or status in (
            401,
            403,
        ):
            return Refused(f"the token may not write to {self.name}")
        refused = kind.startswith("Neptune") and kind.endswith(("LimitExceedException", "Required"))
        if refused or (status is not None and 400 <= int(status) < 500 and int(status) != 408):  # noqa: PLR2004
            return Refused(f"refused: {words}")
        return Unreachable(f"cannot be reached: {words}")


def _seen(attribute: Any) -> Seen:
    kind = str(attribute.type)
    told = getattr(attribute, f"{kind}Properties", None)
    step = getattr(told, "lastStep", None)
    return Seen(kind, None if step is None else float(step), getattr(told, "value", None))


def _plain(error: BaseException) -> str:
    # Without the colours and boxes of the package's own.
    while not str(error) and (below := error.__cause__ or error.__context__) is not None:
        error = below
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip(" -\t") for line in text.splitlines()]
    return f"{type(error).__name__}: {' '.join(filter(None, lines))}"[:300]

"""Requests with the package ``neptune``, and the interpretation of their answers.

The package's own `execute_operations` repeats a batch whose answer was lost, and nobody would know.
Here a batch is sent once; who sends it looks first what is there.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from seamark.remote.protocol import Busy, Missing, Purged, Refused, RemoteError, Unreachable

__all__ = ["Client", "Seen"]

_LIMITS: Final = {"connect_timeout": 5.0, "timeout": 60.0}
"""How long a request may take, seconds."""
_PAUSE_S: Final = 10.0
_PAGE: Final = 1000
"""Points that the package itself asks for at once; a server may give no more."""
_GONE: Final = ("ContainerUUIDNotFound", "ObjectNotFound", "MetadataContainerNotFound")
_FORBIDDEN: Final = ("Unauthorized", "Forbidden", "NeptuneInvalidApiTokenException")
_REFUSED: Final = re.compile("Neptune.*(LimitExceedException|Required)")


class Seen(NamedTuple):
    """An attribute as it is there; `kind` is the protocol's, such as ``"floatSeries"``."""

    kind: str
    last_step: float | None = None
    value: Any = None


class Client:
    """Client of one project of a server, which uses the package ``neptune``; asks when used."""

    def __init__(self, project: str, token: str) -> None:
        self.name, self._token = project, token

    @functools.cached_property
    def _backend(self) -> Any:
        from neptune.internal.backends.hosted_neptune_backend import HostedNeptuneBackend
        from neptune.internal.credentials import Credentials

        backend = HostedNeptuneBackend(Credentials.from_token(self._token))
        self._project = backend.get_project(self.name)
        return backend

    # ---------------------------------------------------------------- runs

    def create(self, custom_id: str) -> str:
        """Return the id of the run that has a custom id; it is made where there is none."""
        with self._translate_errors(Missing):
            backend = self._backend
            return str(backend.create_run(self._project.id, custom_run_id=custom_id).id)

    def ask(self, verb: str, container: str, **given: Any) -> Any:
        """Return the answer to a request about a run; `Purged` if it is not there any more."""
        from neptune.common.exceptions import NeptuneAuthTokenExpired

        with self._translate_errors(Missing):
            backend = self._backend
        with self._translate_errors():
            method = getattr(backend.leaderboard_client.api, verb)
            given |= {"experimentId": container, "_request_options": _LIMITS}
            try:
                return method(**given).response().result
            except NeptuneAuthTokenExpired:  # then nothing was done
                return method(**given).response().result

    def attributes(self, container: str) -> dict[str, Seen]:
        """Return the attributes of a run, by path."""
        told = self.ask("getExperimentAttributes", container)
        return {one.name: _seen(one) for one in told.attributes}

    def execute(self, container: str, operations: list[dict[str, Any]]) -> list[str]:
        """Execute operations in a request that is sent once; return the failures."""
        told = self.ask("executeOperations", container, operations=operations)
        return [str(one.errorDescription) for one in told or []]

    def tail(
        self, container: str, path: str, kind: str, count: int
    ) -> list[tuple[float, int, Any]]:
        """Return step, time (ms) and value of the last points of a series."""
        verb = "getFloatSeriesValues" if kind == "floatSeries" else "getStringSeriesValues"
        ask = functools.partial(self.ask, verb, container, attribute=path)
        total = ask(limit=1, offset=0).totalItemCount
        found: list[Any] = []
        offset = max(0, total - count)
        while some := ask(limit=min(_PAGE, total - offset), offset=offset).values:
            found += some
            offset += len(some)
            if offset >= total:
                break
        return [(one.step, int(one.timestampMillis), one.value) for one in found]

    def upload(self, container: str, path: str, name: str, ext: str, source: str) -> list[str]:
        """Replace a file, or with a `name` a member of a set of files. Returns the errors."""
        from neptune.common.storage.storage_utils import UploadEntry
        from neptune.exceptions import MetadataInconsistency
        from neptune.internal.backends import hosted_file_operations as files

        target = files.FileUploadTarget.FILE_SET if name else files.FileUploadTarget.FILE_ATOM
        query = {"experimentIdentifier": container, "attribute": path}
        with self._translate_errors():
            try:
                files._multichunk_upload_with_retry(  # noqa: SLF001 - the public one takes globs
                    UploadEntry(source, name or path),
                    swagger_client=self._backend.leaderboard_client,
                    query_params=query | ({"subPath": name} if name else {"ext": ext}),
                    multipart_config=self._backend._client_config.multipart_config,  # noqa: SLF001
                    target=target,
                )
            except MetadataInconsistency as error:
                return [str(error)]
        return []

    # ---------------------------------------------------------------- what goes wrong

    @contextlib.contextmanager
    def _translate_errors(self, gone: type[RemoteError] = Purged) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise self._failure(error, gone) from error

    def _failure(self, error: Exception, gone: type[RemoteError]) -> RemoteError:
        kind, answer = type(error).__name__, getattr(error, "response", None)
        told = [getattr(one, "status_code", None) for one in (error, answer)]
        status = next(filter(None, [*told, getattr(error, "status", None)]), 0)
        words = _plain(getattr(error, "cause", None) or error)  # of a connection that was lost
        if kind.startswith("ProjectNotFound"):
            return Missing(f"there is no project {self.name} for this token")
        if status == HTTPStatus.NOT_FOUND or kind in _GONE:
            return gone("it is not there")
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return Busy(f"asked too often: {words}", _PAUSE_S)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) or kind in _FORBIDDEN:
            return Refused(f"the token may not write to {self.name}")
        is_refused = status // 100 == 4 and status != HTTPStatus.REQUEST_TIMEOUT  # noqa: PLR2004
        if is_refused or _REFUSED.fullmatch(kind):
            return Refused(f"refused: {words}")
        return Unreachable(f"cannot be reached: {words}")


def _seen(attribute: Any) -> Seen:
    kind = str(attribute.type)
    told = getattr(attribute, f"{kind}Properties", None)
    return Seen(kind, getattr(told, "lastStep", None), getattr(told, "value", None))


def _plain(error: BaseException) -> str:
    # Without the colours and boxes of the package's own.
    while not str(error) and (below := error.__cause__ or error.__context__) is not None:
        error = below
    text = re.sub(r"\x1b\[[0-9;]*m|--+", " ", str(error))
    return f"{type(error).__name__}: {' '.join(text.split())}"[:300]

"""Operations in requests of Neptune's client, and storage of file contents."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, PathError
from seamark.interchange.operations import OPERATION_ERRORS, Operations, RefusedError
from seamark.paths import STAGES, check_writable
from seamark.values import encode_atom

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from seamark.neptune.server.log import Batch
    from seamark.neptune.server.projects import Container
    from seamark.server.state import Server


PART_BYTES: Final = 8 << 20
_STAGE: Final = "sys/stage"
_SETS: Final = ("sys/tags", "sys/group_tags")
_SET_VERBS: Final = frozenset({"insertStrings", "removeStrings", "clearStringSet"})
_MAX_ERRORS: Final = 1000
"""Maximum number of errors reported for a batch, so that an answer is no longer than its request.
"""


def keep_content(server: Server, container: Container, data: bytes) -> str:
    """Store bytes durably and return their SHA-256 (hex)."""
    digest = hashlib.sha256(data).hexdigest()
    project, run = container
    for start in range(0, len(data), PART_BYTES) or (0,):
        part = data[start : start + PART_BYTES]
        server.blobs.put(project, run, digest, len(data), start, part)
    return digest


class BatchOperations(Operations):
    """Translator of operations into a batch for the journal of a run."""

    def __init__(self, server: Server, container: Container, batch: Batch) -> None:
        super().__init__(batch, partial(keep_content, server, container))
        self._server, self._container = server, container

    def _members(self, path: str) -> Collection[str]:
        from seamark.neptune.server.reading import ContainerReader

        found = ContainerReader(self._server, self._container).attribute(path)
        return list(found.value) if found is not None and found.family == "file_set" else []

    def _tracked(self, digest: str) -> Mapping[str, Any]:
        from seamark.neptune.server.reading import record_of

        return record_of(self._server, self._container, digest)


class Changes:
    """Batch of operations on paths, as sent by the client.

    `request` is the digest of their request. It is recorded if repeating the operations would have
    another result: points are kept even if their steps are equal. `errors` has the error messages,
    in order.
    """

    def __init__(
        self,
        server: Server,
        container: Container,
        operations: list[Any],
        request: str = "",
    ) -> None:
        self._server, self._container, self._operations = server, container, operations
        self._request = request
        self.errors: list[str] = []

    def fill(self, batch: Batch) -> None:
        """Add the operations to a batch; add failures to `errors`."""
        to = BatchOperations(self._server, self._container, batch)
        self.errors, wrong = [], 0
        for each in self._operations:
            path = each.get("path") if isinstance(each, dict) else None
            try:
                self._add(to, batch, path, each)
            except OPERATION_ERRORS as error:
                if wrong < _MAX_ERRORS:
                    self.errors.append(_describe_error(path, error))
                wrong += 1
        if wrong > _MAX_ERRORS:
            self.errors.append(f"and {wrong - _MAX_ERRORS:,} more")
        to.flush()
        if self._request and to.has_logged:
            batch.beat(self._request)

    def _add(self, to: BatchOperations, batch: Batch, path: Any, each: Any) -> None:
        if not isinstance(each, dict):
            raise RefusedError("expected an object")
        if path == _STAGE and self._container.kind == "model_version":
            if set(each) != {"path", "assignString"} or each["assignString"]["value"] not in STAGES:
                raise RefusedError(
                    f"expected one of the stages {', '.join(STAGES)}, got {each!r:.200}"
                )
            to.assign(path, "atom:string", encode_atom(each["assignString"]["value"]))
            return
        checked = path if batch.may_write(path) else check_writable(path)
        for name, what in each.items():
            if name in _SET_VERBS and path not in _SETS:
                raise RefusedError(f"sets of strings are supported at {' and '.join(_SETS)} only")
            if name != "path":
                to.apply(checked, name, what)


def _describe_error(path: Any, error: Exception) -> str:
    if isinstance(error, RefusedError):
        return f"{_text(path)}: {error!s:.1000}"
    if isinstance(error, ArgumentError | PathError):
        return f"{error!s:.1000}"
    return f"{_text(path)}: invalid operation: {error!s:.1000}"


def _text(path: Any) -> str:
    return path[:200] if isinstance(path, str) else type(path).__name__

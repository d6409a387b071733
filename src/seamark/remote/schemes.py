"""Remotes by the scheme of their URI; other packages can add schemes.

A package provides a remote by an entry point of the group ``seamark.remotes``. The name of the
entry point is the scheme, its value a function ``(uri, token) -> Remote``::

    [project.entry-points."seamark.remotes"]
    s3 = "my_package:open_remote"
"""

from __future__ import annotations

import difflib
import os
import re
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from seamark.errors import ArgumentError, MissingExtraError, SeamarkError
from seamark.process.interrupts import let_pass
from seamark.remote.protocol import Remote

GROUP: Final = "seamark.remotes"
_BUILT_IN: Final = {
    "file": "seamark.index.remote:open_remote",
    "http": "seamark.remote.http.sender:open_remote",
    "https": "seamark.remote.http.sender:open_remote",
    "neptune": "seamark.neptune.forward:open_remote",
}
"""Remotes found even if the package's metadata is missing; entry points cannot replace them."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S")
_METHODS: Final = ("journals", "send", "send_gap", "missing_blobs", "put_blob", "close")


def shown(uri: str) -> str:
    """Return a URI for messages, without a possible password or token."""
    return re.sub(r"//[^/@]*@", "//***@", uri).partition("?")[0][:200]


def schemes() -> list[str]:
    """Return the schemes of the installed remotes, sorted."""
    return sorted({*_BUILT_IN, *(each.name for each in entry_points(group=GROUP))})


def canonical(uri: str) -> str:
    """Return the canonical form of the URI of a remote.

    The URI must belong to an installed remote. No request is sent.
    """
    found = _SCHEME.match(uri)
    if found is None:
        hint = f"; did you mean 'file://{os.path.abspath(uri)}'?" if uri[:1] in "/.~" else ""  # noqa: PTH100
        raise ArgumentError(
            f"remote: expected a URI such as 'https://seamark.lab', got {shown(uri)!r}{hint}"
        )
    scheme = found[1].lower()
    if scheme not in _BUILT_IN and scheme not in (known := schemes()):
        near = difflib.get_close_matches(scheme, known, 1)
        hint = f"; did you mean {near[0]}://?" if near else ""
        raise ArgumentError(
            f"remote: expected one of {', '.join(known)}, got the scheme {scheme!r}{hint}"
        )
    if scheme in ("http", "https"):
        from seamark.remote.http.address import Address

        return str(Address.of(uri))
    if scheme == "file":
        from seamark.remote.file import root_of

        return root_of(uri).as_uri()
    if scheme == "neptune":
        from seamark.remote.neptune import check_project

        check_project(uri)
        return f"neptune://{uri.partition('://')[2]}"
    return uri


def check_token(uri: str, token: str | None) -> None:
    """Raise an error if a remote needs a token and there is none.

    Seamark servers need none, because their projects may be public.
    """
    if uri.lower().startswith("neptune://"):
        from seamark.remote.neptune import token_to_show

        token_to_show(token)


def open_remote(uri: str, token: str | None = None) -> Remote:
    """Return the remote of a URI; no request is sent yet.

    Args:
        uri: Such as ``https://seamark.lab`` or ``file:///mnt/runs``.
        token: Token to send; None makes the remote search for one.

    Raises:
        ArgumentError: If there is no such remote, or the URI is invalid for it.
        MissingExtraError: If it needs a package that is not installed.
        SeamarkError: If the entry point of a package cannot be used.
    """
    canonical(uri)
    scheme = uri.partition("://")[0].lower()
    point = _entry_point(scheme)
    try:
        remote: Remote = point.load()(uri, token)
    except SeamarkError:
        raise
    except ImportError as error:
        let_pass(error)
        package = error.name or "a package"
        raise MissingExtraError(
            f"remote: {scheme}:// needs {package}, which is not installed ({error})"
        ) from error
    except Exception as error:
        let_pass(error)
        raise SeamarkError(
            f"remote: {scheme}:// cannot be used: {_provider_of(point)} failed: {error!r:.300}"
        ) from error
    if missing := [verb for verb in _METHODS if not callable(getattr(remote, verb, None))]:
        raise SeamarkError(
            f"remote: {scheme}:// cannot be used: {_provider_of(point)} lacks {missing}"
        )
    return remote


def _entry_point(scheme: str) -> EntryPoint:
    if scheme in _BUILT_IN:
        return EntryPoint(scheme, _BUILT_IN[scheme], GROUP)
    return next(iter(entry_points(group=GROUP, name=scheme)))


def _provider_of(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"{package} ({point.value})"

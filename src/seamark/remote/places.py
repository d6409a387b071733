"""Remotes by the scheme of their URI; other packages can add schemes.

A package provides a remote with an entry point of the group ``seamark.remotes``. The name of the
entry point is the scheme, and its value a function ``(uri, token) -> Remote``::

    [project.entry-points."seamark.remotes"]
    s3 = "my_package:open_remote"
"""

from __future__ import annotations

import difflib
import os
import re
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError, MissingExtraError, SeamarkError
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.remote.protocol import Remote

__all__ = ["canonical", "check_token", "check_uri", "open_remote", "schemes", "shown"]

GROUP: Final = "seamark.remotes"
_OWN: Final = {
    "file": "seamark.index.remote:open_remote",
    "http": "seamark.remote.http.sender:open_remote",
    "https": "seamark.remote.http.sender:open_remote",
    "neptune": "seamark.neptune.forward:open_remote",
}
"""Remotes found even if the package's metadata is missing; entry points cannot replace them."""
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S")
_VERBS: Final = ("journals", "send", "send_gap", "missing_blobs", "put_blob", "close")


def shown(uri: str) -> str:
    """Return a URI for messages, without a possible password or token."""
    return re.sub(r"//[^/@]*@", "//***@", uri).partition("?")[0][:200]


def schemes() -> list[str]:
    """Return the schemes of the remotes that are installed, sorted."""
    return sorted({*_OWN, *(each.name for each in entry_points(group=GROUP))})


def check_uri(uri: str) -> str:
    """Return a URI if its form and scheme are those of an installed remote; nothing is asked."""
    canonical(uri)
    return uri


def canonical(uri: str) -> str:
    """Return the one form of a URI by which a place is known, however it was written.

    Its form and scheme have to be those of an installed remote; nothing is asked.
    """
    found = _SCHEME.match(uri)
    if found is None:
        hint = f"; did you mean 'file://{os.path.abspath(uri)}'?" if uri[:1] in "/.~" else ""  # noqa: PTH100
        msg = f"remote: expected a URI such as 'https://seamark.lab', got {shown(uri)!r}{hint}"
        raise ArgumentError(msg)
    scheme = found[1].lower()
    if scheme not in _OWN and scheme not in (known := schemes()):
        near = difflib.get_close_matches(scheme, known, 1)
        hint = f"; did you mean {near[0]}://?" if near else ""
        msg = f"remote: expected one of {', '.join(known)}, got the scheme {scheme!r}{hint}"
        raise ArgumentError(msg)
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
    """Make sure that a place can be asked at all that nobody may ask without a token.

    Servers of Seamark's own are asked without one too: their projects may be public.
    """
    if uri.lower().startswith("neptune://"):
        from seamark.remote.neptune import token_to_show

        token_to_show(token)


def open_remote(uri: str, token: str | None = None) -> Remote:
    """Return the remote that a URI names; nothing is asked yet.

    Args:
        uri: Such as ``https://seamark.lab`` or ``file:///mnt/runs``.
        token: To show there; None has the remote look for one.

    Raises:
        ArgumentError: If there is no such remote, or it cannot take this URI.
        MissingExtraError: If it needs a package that is not installed.
        SeamarkError: If what a package brings for it cannot be used.
    """
    check_uri(uri)
    scheme = uri.partition("://")[0].lower()
    point = _point(scheme)
    try:
        remote: Remote = point.load()(uri, token)
    except SeamarkError:
        raise
    except ImportError as error:
        let_pass(error)
        package = error.name or "a package"
        msg = f"remote: {scheme}:// needs {package}, which is not installed ({error})"
        raise MissingExtraError(msg) from error
    except Exception as error:
        let_pass(error)
        msg = f"remote: {scheme}:// cannot be used: {_brought_by(point)} failed: {error!r:.300}"
        raise SeamarkError(msg) from error
    if lacking := [verb for verb in _VERBS if not callable(getattr(remote, verb, None))]:
        msg = f"remote: {scheme}:// cannot be used: {_brought_by(point)} lacks {lacking}"
        raise SeamarkError(msg)
    return remote


def _point(scheme: str) -> EntryPoint:
    if scheme in _OWN:
        return EntryPoint(scheme, _OWN[scheme], GROUP)
    return next(iter(entry_points(group=GROUP, name=scheme)))


def _brought_by(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "a package"
    return f"{package} ({point.value})"

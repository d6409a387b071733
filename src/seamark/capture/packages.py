"""Which Python, and what is installed beside it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from typing import Final

__all__ = ["installed_packages", "python_version"]

_NAME: Final = re.compile(r"^Name:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)
_VERSION: Final = re.compile(r"^Version:[ \t]*(\S+)", re.MULTILINE | re.IGNORECASE)


def python_version() -> str:
    """Return Python's version, such as ``"3.11.7"``."""
    return platform.python_version()


def installed_packages() -> str:
    """Return ``name==version`` of all that is installed, one a line: a requirements file.

    Sorted by name. Where a name is found twice on ``sys.path``, the first counts, as for imports.
    """
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        if line := _line_of(distribution):
            found.setdefault(_key(line), line)
    return "\n".join(found[key] for key in sorted(found))


def _line_of(distribution: importlib.metadata.Distribution) -> str | None:
    """Return ``name==version``, or None for a damaged distribution.

    The two lines are searched in the text: parsing the whole file as an e-mail message, as
    ``.metadata`` does, takes thirty times as long and holds the interpreter meanwhile.
    """
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except (OSError, ValueError):
        return None
    name, version = _NAME.search(text), _VERSION.search(text)
    return f"{name[1]}=={version[1]}" if name and version else None


def _key(line: str) -> str:
    return re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower()

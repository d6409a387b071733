"""A finder for modules of Neptune's client that this package has under another name.

It stands in a module of its own: what ``sys.meta_path`` holds keeps its module alive when Python
ends, and the package is to be taken down before that (see `seamark.capture.ending.process_end`).
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__all__ = ["install"]

_PACKAGE = "seamark."


class _Finder:
    """Finds a module below this package that no file is."""

    @staticmethod
    def find_spec(fullname: str, *_: Any) -> Any:
        """Return what makes the module, or None."""
        if not fullname.startswith(_PACKAGE):
            return None
        finder = import_module(f"{_PACKAGE}neptune.finder")
        return finder.find_substitute(fullname.removeprefix(_PACKAGE), fullname)


def install() -> None:
    """Ask for such modules when all other finders were asked."""
    sys.meta_path.append(_Finder)

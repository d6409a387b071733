"""Finder for Neptune's modules, in a separate module because ``sys.meta_path`` keeps it alive."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

__all__ = ["install"]

_PACKAGE = "seamark."


class _Finder:
    @staticmethod
    def find_spec(fullname: str, *_: Any) -> Any:
        if not fullname.startswith(_PACKAGE):
            return None
        finder = import_module(f"{_PACKAGE}neptune.finder")
        return finder.find_substitute(fullname.removeprefix(_PACKAGE), fullname)


def install() -> None:
    """Install the finder after all other finders."""
    sys.meta_path.append(_Finder)

"""The client as an installed package, for those who ask for its version."""

from __future__ import annotations

import os
import re
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

__all__ = ["VERSION", "Packaged"]

VERSION: Final = "1.14.0"
"""Of the client whose names and arguments Seamark has."""
_NAMES: Final = ("neptune", "neptune-client")


class Packaged(Distribution):
    """Metadata of ``neptune``, or ``neptune-client``, its older name, for `importlib.metadata`.

    Args:
        name: One of the two.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def called(cls, name: str | None) -> Packaged | None:
        """Return the package of a name; None for others, and where all packages are listed.

        A list of what is installed does not hold it: nobody installed it.
        """
        normal = re.sub(r"[-_.]+", "-", name or "").lower()
        return cls(normal) if normal in _NAMES else None

    def read_text(self, filename: str) -> str | None:
        """Return the metadata, which are the only file that there is."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {self._name}\nVersion: {VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        """Return where a file would lie."""
        return Path(__file__).parent / path

"""Project paths for what other programs call a project."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from seamark.errors import PathError
from seamark.paths import check_project

__all__ = ["project_of"]

_ODD: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST: Final = 80


def project_of(name: str) -> str:
    """Return the project path for a name such as ``workspace/project``.

    A name that is a legal path stays what it is. Of any other, what cannot be in a path becomes a
    dash, and eight digits that follow from the name keep it apart from its like.
    """
    try:
        return check_project(name)
    except PathError:
        parts = [_ODD.sub("-", part).strip("-._")[:_LONGEST] for part in name.split("/")]
        clean = "/".join(part or "project" for part in parts[:4])
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        try:
            return check_project(f"{clean}-{digest}")
        except PathError:
            return f"imported/project-{digest}"

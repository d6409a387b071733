"""Saved views: named states of the page for a project.

A view is the part after the path in the address of the page. The page ignores unknown parameters,
and those that refer to another project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_VIEWS: Final = 200
"""Maximum number of views of a project."""
MOST_ADDRESS: Final = 64 << 10
"""Maximum length of a view's address, in characters."""
_MAX_INT64: Final = (1 << 63) - 1


def _printable(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise ValueError("expected printable characters, and only spaces between words")
    return name


Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
Address = Annotated[str, Field(max_length=MOST_ADDRESS, pattern=r"^[!-~]*$")]


class View(BaseModel):
    """Saved view; the user `by` saved it at `t_ns`, in nanoseconds since the Unix epoch."""

    model_config = ConfigDict(frozen=True)

    name: Name
    address: Address
    default: bool = False
    by: Annotated[str, Field(max_length=1000)] = ""
    t_ns: Annotated[int, Field(ge=0, le=_MAX_INT64)] = 0


Work = Callable[[Mapping[str, View]], Mapping[str, View]]
"""Function that maps the existing views to the new ones, both by name."""


class Views(Protocol):
    """Storage of the views of all projects; safe to use from several threads and processes."""

    def apart(self, project: str) -> str:
        """Return a sentence if views saved now are not shared with others; else an empty text."""

    def read(self, project: str) -> Mapping[str, View]:
        """Return the views of a project by name."""

    def change(self, project: str, work: Work) -> Mapping[str, View]:
        """Change the views of a project under a lock; return the new ones.

        If `work` raises an error, they do not change.
        """

"""Counterpart of Neptune's module ``typing``: names for annotations and progress bars."""

from __future__ import annotations

from collections.abc import Callable

from seamark.reading.browsing import Browsable as SupportsNamespaces
from seamark.run.container import Container as NeptuneObject
from seamark.utils import ProgressBarCallback

__all__ = [
    "NeptuneObject",
    "NeptuneObjectCallback",
    "ProgressBarCallback",
    "ProgressBarType",
    "SupportsNamespaces",
]

NeptuneObjectCallback = Callable[[NeptuneObject], None]
ProgressBarType = bool | type[ProgressBarCallback]

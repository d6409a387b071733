"""Lightning's ``loggers.NeptuneLogger``, where a release has nothing but a refusal of that name."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Final

__all__ = ["LOGGERS", "replace_stub"]

_NAME: Final = "NeptuneLogger"
_PACKAGES: Final = ("lightning.pytorch.loggers", "pytorch_lightning.loggers")
LOGGERS: Final = frozenset({*_PACKAGES, *(f"{each}.neptune" for each in _PACKAGES)})
"""Modules in which a script looks for it."""


def replace_stub(module: ModuleType) -> None:
    """Make a module of Lightning provide Seamark's logger where it has none of its own.

    A logger that Lightning has itself (up to 2.6.1) stays: it works with what it imports.
    """
    own = module.__dict__.get(_NAME)
    if own is not None and hasattr(own, "log_metrics"):
        return
    module.__dict__.pop(_NAME, None)
    otherwise = module.__dict__.get("__getattr__")

    def find(name: str) -> Any:
        if name == _NAME:  # not before it is asked for: ours imports Lightning
            return getattr(import_module("seamark.lightning"), _NAME)
        if otherwise is not None:
            return otherwise(name)
        msg = f"module {module.__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    module.__dict__["__getattr__"] = find

"""Nothing of ours reaches the training: the decorator of what Lightning calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["guarded"]

P = ParamSpec("P")
Self = TypeVar("Self")


def guarded(
    method: Callable[Concatenate[Self, P], None],
) -> Callable[Concatenate[Self, P], None]:
    """Hand what goes wrong in a method to the object's ``lost(method name, error)``."""

    @wraps(method)
    def quiet(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the promise of this decorator
            self._lost(method.__name__, error)

    return quiet

"""Utilities for training scripts, including those of Neptune's module ``utils``."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar

from seamark.errors import ArgumentError, MissingExtraError, ValueKindError
from seamark.process.rank import local_rank
from seamark.types import File, Histogram, Value
from seamark.values import encode_atom
from seamark.values._atoms import members, thaw
from seamark.values._numbers import argument_error
from seamark.values._parameters import text_of

__all__ = [
    "NullProgressBar",
    "ProgressBarCallback",
    "TqdmProgressBar",
    "device",
    "every",
    "stop_synchronization_callback",
    "stringify_unsupported",
]

R = TypeVar("R")

_SERIES_OF = (list, tuple)
_STOP_S: Final = 60.0
_CALLS: Final = 10
"""Default of `every`: one of this many calls is made."""


class _Stops(Protocol):
    def stop(self, *, seconds: float | None = None) -> None:
        """Stop."""


def stop_synchronization_callback(neptune_object: _Stops) -> None:
    """Stop a run or project, waiting up to a minute for its files.

    In Neptune this is passed to ``init_run(async_no_progress_callback=)``. Seamark never calls it,
    because no record waits for a network.
    """
    neptune_object.stop(seconds=_STOP_S)


class Thinned(Generic[R]):
    """A function that executes only some of its calls; created by `every`."""

    def __init__(self, function: Callable[..., R], calls: int, seconds: float) -> None:
        functools.update_wrapper(self, function)
        self._function, self._calls, self._seconds = function, calls, seconds
        self._lock = threading.Lock()
        self._since = calls
        self._due = -math.inf
        self._left_out: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def __call__(self, *given: Any, **named: Any) -> R | None:
        """Call the function if a call is due and return its result, else None."""
        with self._lock:
            now = time.monotonic()
            is_due = self._since >= self._calls and now >= self._due
            self._since = 1 if is_due else self._since + 1
            self._left_out = None if is_due else (given, named)
            if is_due:
                self._due = now + self._seconds
        return self._function(*given, **named) if is_due else None

    def flush(self) -> R | None:
        """Make the last call if it was skipped and return its result, else None."""
        with self._lock:
            found, self._left_out = self._left_out, None
        return self._function(*found[0], **found[1]) if found is not None else None

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Refuse use as a method: all objects of the class would share its calls.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "every: expected a function, got a method, whose calls would be counted over "
            "all objects; wrap the call instead: every(...)(object.method)"
        )


def every(
    *, calls: int | None = None, seconds: float | None = None
) -> Callable[[Callable[..., R]], Thinned[R]]:
    """Decorate a function so that only some of its calls are made, including the first.

    A skipped call returns None. ``f.flush()`` makes the last call if it was skipped.

    Args:
        calls: Make one of this many calls; 10 if ``seconds`` is not given either.
        seconds: Make a call if this time has passed since the last call that was made.

    Raises:
        ArgumentError: If both are given, or one is not a number above 0.
    """
    if calls is not None and seconds is not None:
        raise ArgumentError(
            f"every: expected either calls= or seconds=, got calls={calls!r}, seconds={seconds!r}"
        )
    if calls is None and seconds is None:
        calls = _CALLS
    if calls is not None and (type(calls) is not int or calls < 1):
        raise argument_error(calls, "every: calls", "a whole number of at least 1")
    if seconds is not None and not (
        type(seconds) in (int, float) and math.isfinite(seconds) and seconds > 0
    ):
        raise argument_error(seconds, "every: seconds", "a finite number above 0")

    def decorate(function: Callable[..., R]) -> Thinned[R]:
        if not callable(function):
            raise argument_error(function, "every", "a function to decorate")
        return Thinned(function, calls or 1, seconds or 0.0)

    return decorate


class ProgressBarCallback(contextlib.AbstractContextManager["ProgressBarCallback"]):
    """Base of custom progress bars; pass the class to ``fetch_runs_table(progress_bar=)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Accept the arguments that tables pass."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the bar; exceptions propagate."""

    @abstractmethod
    def update(self, *, by: int, total: int | None = None) -> None:
        """Update the progress.

        Args:
            by: Increment.
            total: Total; None if unknown.
        """


class NullProgressBar(ProgressBarCallback):
    """A progress bar that shows nothing."""

    def update(self, *, by: int, total: int | None = None) -> None:
        """Do nothing."""


class TqdmProgressBar(ProgressBarCallback):
    """A progress bar of tqdm, which must be installed.

    Args:
        *args: Not used.
        description: Prefix.
        unit: Unit of the count.
        unit_scale: Whether to shorten large numbers.
        **kwargs: For tqdm.

    Raises:
        MissingExtraError: If tqdm is not installed.
    """

    def __init__(
        self,
        *args: Any,
        description: str | None = None,
        unit: str | None = None,
        unit_scale: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args)
        try:
            made_by = import_module("tqdm.auto")  # which adapts to notebooks
        except ModuleNotFoundError as error:
            raise MissingExtraError("TqdmProgressBar needs tqdm: pip install tqdm") from error
        self._bar = made_by.tqdm(desc=description, unit=unit or "", unit_scale=unit_scale, **kwargs)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the bar."""
        self._bar.close()

    def update(self, *, by: int, total: int | None = None) -> None:
        """Update the progress."""
        if total:
            self._bar.total = total
        self._bar.update(by)


def stringify_unsupported(value: Any, expand: bool = False) -> Any:  # noqa: FBT001, FBT002 - Neptune's
    """Return ``value`` with all unsupported parts converted to text.

    Containers stay nested, with strings as keys. Files, histograms and other supported values are
    unchanged, so a second call changes nothing. In an unsupported list only the unsupported
    elements become text. Never raises, and calls nothing but ``__str__``.

    Args:
        value: Anything, such as ``{"lr": 0.1, "model": model, "device": torch.device("cpu")}``.
        expand: Convert lists, tuples and sets to mappings by 0-based index, so that each element
            gets a path of its own.
    """
    try:
        return _as_recorded(value, (), expand=expand)
    except Exception:  # noqa: BLE001 - what fails whatever it is asked is text
        return text_of(value, names_callables=False)


def _as_recorded(value: Any, above: tuple[int, ...], *, expand: bool) -> Any:
    if isinstance(value, (File, Histogram, Value)):
        return value
    value = thaw(value)
    if id(value) in above:
        return f"<{type(value).__name__} that holds itself>"
    above = (*above, id(value))
    inside = members(value)
    if inside is None and expand and isinstance(value, (*_SERIES_OF, set, frozenset)):
        inside = list(enumerate(value))
    if inside is not None:
        return {_key(key): _as_recorded(each, above, expand=expand) for key, each in inside}
    try:
        encode_atom(value)
    except ValueKindError:
        if issubclass(type(value), _SERIES_OF):
            return [_as_recorded(each, above, expand=expand) for each in value]
        return text_of(value, names_callables=False)
    return value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else text_of(key)


def device() -> Any:
    """Return the device on which this process trains, as a ``torch.device``.

    This is the GPU of the local rank if a launcher started one process per GPU, else the first GPU,
    else Apple's or Intel's accelerator, else the CPU. torch is imported when this is called.

    Raises:
        MissingExtraError: If torch is not installed.
    """
    try:
        torch = import_module("torch")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "seamark.utils.device() needs torch: see https://pytorch.org/get-started"
        ) from error
    if count := (torch.cuda.device_count() if torch.cuda.is_available() else 0):
        rank = local_rank()
        return torch.device("cuda", rank % count if rank else 0)
    for kind, backend in (("mps", getattr(torch.backends, "mps", None)), ("xpu", None)):
        found = backend or getattr(torch, kind, None)
        if found is not None and found.is_available():
            return torch.device(kind)
    return torch.device("cpu")

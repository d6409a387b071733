"""Neptune's ``utils`` under its own name."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import MissingExtraError, ValueKindError
from seamark.types import File, Histogram, Value
from seamark.values import encode_atom
from seamark.values._fields import members, thaw
from seamark.values._parameters import text_of

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "NullProgressBar",
    "ProgressBarCallback",
    "TqdmProgressBar",
    "stop_synchronization_callback",
    "stringify_unsupported",
]

_SERIES_OF = (list, tuple)
_STOP_S: Final = 60.0


class _Stops(Protocol):
    def stop(self, *, seconds: float | None = None) -> None:
        """Stop."""


def stop_synchronization_callback(neptune_object: _Stops) -> None:
    """Stop a run or project, waiting a minute for its files.

    In Neptune this is given to ``init_run(async_no_progress_callback=)``; nothing calls it here, as
    no record waits for a network.

    .. versionadded:: 0.1
    """
    neptune_object.stop(seconds=_STOP_S)


class ProgressBarCallback(contextlib.AbstractContextManager["ProgressBarCallback"]):
    """A base for progress bars of your own: give the class to ``fetch_runs_table(progress_bar=)``.

    .. versionadded:: 0.1
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take whatever a table tells of what it does."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End; what was raised goes on."""

    @abstractmethod
    def update(self, *, by: int, total: int | None = None) -> None:
        """Show that more is done.

        Args:
            by: How much more.
            total: How much there is in all; None if that is not known.
        """


class NullProgressBar(ProgressBarCallback):
    """A progress bar that shows nothing.

    .. versionadded:: 0.1
    """

    def update(self, *, by: int, total: int | None = None) -> None:
        """Do nothing."""


class TqdmProgressBar(ProgressBarCallback):
    """A progress bar of tqdm, which has to be installed.

    Args:
        *args: Not used.
        description: What stands before it.
        unit: What is counted.
        unit_scale: Whether large numbers are shortened.
        **kwargs: For tqdm.

    Raises:
        MissingExtraError: If tqdm is not installed.

    .. versionadded:: 0.1
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
            made_by = import_module("tqdm.auto")  # which knows what a notebook can show
        except ModuleNotFoundError as error:
            msg = "TqdmProgressBar needs tqdm: pip install tqdm"
            raise MissingExtraError(msg) from error
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
        """Show that more is done."""
        if total:
            self._bar.total = total
        self._bar.update(by)


def stringify_unsupported(value: Any, expand: bool = False) -> Any:  # noqa: FBT001, FBT002 - Neptune's
    """Return ``value`` with everything that cannot be recorded turned into text.

    Containers stay nested, with text for keys; files, histograms and whatever can be kept stay as
    they are, so calling this twice changes nothing more. Of a list that cannot be kept only the
    elements that are the reason become text. Never raises and calls nothing but ``__str__``.

    Args:
        value: Anything, such as ``{"lr": 0.1, "model": model, "device": torch.device("cpu")}``.
        expand: Turn lists, tuples and sets into mappings by their 0-based index, so that each
            element gets a path of its own.

    .. versionadded:: 0.1
    """
    try:
        return _kept(_expanded(value, ()) if expand else value, ())
    except Exception:  # noqa: BLE001 - what fails whatever it is asked is text
        return text_of(value)


def _expanded(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, (File, Histogram, Value)) or id(value) in above:
        return value
    value = thaw(value)
    inside = members(value)
    if inside is None and isinstance(value, (*_SERIES_OF, set, frozenset)):
        inside = list(enumerate(value))
    if inside is None:
        return value
    return {_key(key): _expanded(each, (*above, id(value))) for key, each in inside}


def _kept(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, (File, Histogram, Value)):
        return value
    value = thaw(value)
    if id(value) in above:
        return f"<{type(value).__name__} that holds itself>"
    inside = members(value)
    if inside is not None:
        return {_key(key): _kept(each, (*above, id(value))) for key, each in inside}
    try:
        encode_atom(value)
    except ValueKindError:
        if issubclass(type(value), _SERIES_OF):
            return [_kept(each, (*above, id(value))) for each in value]
        return text_of(value)
    return value


def _key(key: Any) -> str:
    return key if isinstance(key, str) else text_of(key)

"""Neptune's ``utils`` under its own name: one function."""

from __future__ import annotations

from typing import Any

from seamark.errors import ValueKindError
from seamark.types import File, Histogram, Value
from seamark.values import encode_atom
from seamark.values._fields import members, thaw
from seamark.values._parameters import text_of

__all__ = ["stringify_unsupported"]

_SERIES_OF = (list, tuple)


def stringify_unsupported(value: Any) -> Any:
    """Return ``value`` with everything that cannot be recorded turned into text.

    Containers stay nested, with text for keys; files, histograms and whatever can be kept stay as
    they are, so calling this twice changes nothing more. Of a list that cannot be kept only the
    elements that are the reason become text. Never raises and calls nothing but ``__str__``.

    Args:
        value: Anything, such as ``{"lr": 0.1, "model": model, "device": torch.device("cpu")}``.

    .. versionadded:: 0.1
    """
    try:
        return _kept(value, ())
    except Exception:  # noqa: BLE001 - what fails whatever it is asked is text
        return text_of(value)


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

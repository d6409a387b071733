"""Runs as long tables, part by part: what `seamark export` writes, whatever the format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.cli import _facts
from seamark.cli._json import dumps
from seamark.cli._runs import RunRef, matching_paths
from seamark.reading.document import own_attributes, value_mapping

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.points import Attempt, Points
    from seamark.reading.reader import Reader

__all__ = [
    "ATTRIBUTES",
    "POINTS",
    "AttributeRow",
    "Tables",
    "Texts",
]

POINTS: Final = ("run", "path", "step", "value", "time", "attempt")
"""Columns of a table of points."""
ATTRIBUTES: Final = ("run", "path", "family", "type", "value")
"""Columns of a table of attributes."""


class Texts(NamedTuple):
    """Points of a string series; times in nanoseconds since the Unix epoch."""

    step: list[float]
    value: list[str]
    time_ns: list[int]
    attempt: list[int]


class AttributeRow(NamedTuple):
    """Value at a path of a run, as text.

    Attributes:
        is_text: Whether the value is free text and not a number.
    """

    run: str
    path: str
    family: str
    type: str
    value: str
    is_text: bool


class Tables:
    """The tables of some runs; a run is read when its turn comes.

    Args:
        views: The runs; they are gone through once.
        patterns: Only these paths, namespaces or patterns; none for all.
        attempt: Which attempts to include.
    """

    def __init__(
        self, views: Iterator[tuple[RunRef, Reader]], patterns: Sequence[str], attempt: Attempt
    ) -> None:
        self.views, self.patterns, self.attempt = views, patterns, attempt

    def series(self) -> Iterator[tuple[str, str, Points]]:
        """Yield run id, path and points of each series of numbers."""
        for ref, view in self.views:
            for path in matching_paths(view, self.patterns, ("float_series",)):
                yield ref.run, path, view.points(path, self.attempt)

    def texts(self) -> Iterator[tuple[str, str, Texts]]:
        """Yield run id, path and points of each series of texts."""
        for ref, view in self.views:
            for path in matching_paths(view, self.patterns, ("string_series",)):
                points = view.texts(path, self.attempt)
                yield (
                    ref.run,
                    path,
                    Texts(
                        [one.step for one in points],
                        [_text(view, one.text, path) for one in points],
                        [one.time_ns for one in points],
                        [one.attempt for one in points],
                    ),
                )

    def attributes(self) -> Iterator[AttributeRow]:
        """Yield every attribute; those of series with their summaries as JSON."""
        for ref, view in self.views:
            wanted = set(matching_paths(view, self.patterns, None))
            for one in own_attributes(view):
                if one.path in wanted:
                    is_text = isinstance(one.value, str) or one.type == "text"
                    yield AttributeRow(
                        ref.run, one.path, one.family, one.type, _value(view, one), is_text
                    )


def _text(view: Reader, text: Any, path: str) -> str:
    """Return a text in full; of a long one whose file is not there, its record."""
    found = _facts.text_or_record(view, text, path)
    return found if isinstance(found, str) else dumps(found, indent=None)


def _value(view: Reader, attribute: Attribute) -> str:
    value = attribute.value
    if isinstance(value, str) or attribute.type == "text":
        return _text(view, value, attribute.path)
    if attribute.family != "atom" or isinstance(value, list | dict):
        return dumps(value_mapping(value), indent=None)
    return _facts.value_text(value, exact=True)

"""Runs as long tables, part by part: what `seamark export` writes, whatever the format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.cli import _facts
from seamark.cli._json import dumps
from seamark.cli._runs import RunRef, matching_paths
from seamark.reading.document import own_attributes, value_mapping
from seamark.reading.value_words import value_text

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader

__all__ = ["ATTRIBUTES", "FAMILIES", "POINTS", "Tables"]

POINTS: Final = ("run", "path", "step", "value", "time", "attempt")
"""Columns of a table of points."""
ATTRIBUTES: Final = ("run", "path", "family", "type", "value")
"""Columns of a table of attributes."""
FAMILIES: Final = {"series": "float_series", "texts": "string_series"}
"""Tables of points, and the family of what is in each."""


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

    def points(self, what: str) -> Iterator[tuple[str, str, Any, Any, Any, Any]]:
        """Yield run id, path, steps, values, times (ns) and attempts of one series after the other.

        Args:
            what: One of `FAMILIES`.
        """
        for ref, view in self.views:
            for path in matching_paths(view, self.patterns, (FAMILIES[what],)):
                if what == "series":
                    found = view.points(path, self.attempt)
                    yield ref.run, path, found.step, found.value, found.time_ns, found.attempt
                else:
                    texts = view.texts(path, self.attempt)
                    yield (
                        ref.run,
                        path,
                        [one.step for one in texts],
                        [_text(view, one.text, path) for one in texts],
                        [one.time_ns for one in texts],
                        [one.attempt for one in texts],
                    )

    def attributes(self) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield a row of texts for each attribute, and whether its value is free text.

        Of a series the value is its summary, as JSON.
        """
        for ref, view in self.views:
            wanted = set(matching_paths(view, self.patterns, None))
            for one in own_attributes(view):
                if one.path in wanted:
                    is_text = isinstance(one.value, str) or one.type == "text"
                    yield (ref.run, one.path, one.family, one.type, _value(view, one)), is_text


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
    return value_text(value, exact=True)

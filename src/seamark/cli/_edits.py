"""Changing what people may change of a run, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._app import CommandError, misuse
from seamark.journal.folder import RunFolder
from seamark.reading.words import clean, shorten
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.cli._runs import RunRef, Runs
    from seamark.cli._screen import Screen

__all__ = ["as_recorded", "legible", "print_change", "record"]

_LONGEST: Final = 60
"""Cells to which an old and a new text are shortened on a terminal."""


def record(runs: Runs, ref: RunRef, **changes: Any) -> None:
    """Change a run on a server, or through a journal of our own, which is folded then.

    Such a journal owns nothing: state, error, script and running time of the run stay as they are,
    whether it is finished or is being trained by another process at this moment.

    Args:
        runs: Where the run is.
        ref: The run.
        **changes: ``name``, ``description`` (None removes it), ``add_tags`` or ``remove_tags``.

    Raises:
        JournalError: If the folder of the run cannot be written.
        Misuse: If a text does not fit into one record.
        Trouble: If a record did not reach the disk.
        SeamarkError: If the server cannot be reached, or refuses the changes.
    """
    from seamark.journal.format import LONG_TEXT, is_long
    from seamark.registry.edits import append_ops

    for name, value in changes.items():
        if isinstance(value, str) and is_long(value):
            misuse(f"sys/{name}: expected at most {LONG_TEXT:,} characters, got {len(value):,}")
        if name.endswith("_tags"):
            changes[name] = [escape(tag) for tag in sorted(value)]
    if runs.root is not None:
        if not append_ops(RunFolder(runs.root, ref.project, ref.run), _ops(changes)):
            msg = f"{runs.root / ref.project / ref.run}: the change could not be written"
            raise CommandError(msg)
    else:
        if "description" in changes:
            was = getattr(runs.view(ref).attribute("sys/description"), "value", None)
            changes["description_was"] = was if isinstance(was, str) else None
        runs.remote.edit((ref.project, ref.run), changes)
    runs.refresh(ref.project, ref.run)


def _ops(changes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield changes as records."""
    from seamark.run.contents import assign_ops
    from seamark.values import encode_atom

    for name, value in changes.items():
        op, of_tags, _ = name.partition("_tags")
        if of_tags and value:
            yield {"op": op, "path": "sys/tags", "values": value}
        elif value is None:
            yield {"op": "delete", "paths": [f"sys/{name}"]}
        elif not of_tags:
            yield from assign_ops({f"sys/{name}": encode_atom(value)})


def as_recorded(text: str) -> str:
    """Return what a run keeps of a text that a person gave: no secrets.

    Raises:
        ArgumentError: If the environment says something else about secrets.
    """
    from seamark.options.settings import hidden_by_environment

    return hidden_by_environment().text(text)


def legible(text: str, what: str, *, block: bool = False) -> str:
    """Return a text that a person gave, if it can be shown as it is and says something.

    Args:
        text: What was given.
        what: How the message calls it.
        block: Whether it may have several lines.

    Raises:
        Misuse: If it is empty, or holds something that a terminal would obey or cannot show.
    """
    if not text.strip():
        misuse(f"{what}: expected some text, got {text!r}")
    if clean(text, block=block) != text:
        misuse(f"{what}: expected no control characters, got {text!r:.200}")
    return text


def print_change(screen: Screen, label: str, old: str, new: str) -> None:
    """Print what something was and what it is now, in one line."""
    before, after = (
        shorten(clean(one), _LONGEST) if screen.terminal else clean(one) for one in (old, new)
    )
    if old == new:
        screen.styled([(f"{label}: {after}", ""), (" (as it was)", "dim")])
    else:
        screen.styled([(f"{label}: ", ""), (f"{before} → ", "dim"), (after, "bold")])

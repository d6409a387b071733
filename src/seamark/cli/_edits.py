"""Changing what people may change of a run, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._app import Trouble, misuse
from seamark.journal.folder import RunFolder
from seamark.reading.words import clean, shorten
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.cli._runs import RunRef, Runs
    from seamark.cli._screen import Screen

__all__ = [
    "as_recorded",
    "assigned",
    "deleted",
    "legible",
    "print_change",
    "record",
    "tags_changed",
]

_LONGEST: Final = 60
"""Cells to which an old and a new text are shortened on a terminal."""


def record(runs: Runs, ref: RunRef, ops: Iterable[Mapping[str, Any]]) -> None:
    """Append records to a run through a journal of our own, and fold them.

    Such a journal owns nothing: state, error, script and running time of the run stay as they are,
    whether it is finished or is being trained by another process at this moment.

    Args:
        runs: Where the run is.
        ref: The run.
        ops: As `assigned`, `deleted` and `tags_changed` return them.

    Raises:
        JournalError: If the folder of the run cannot be written.
        Trouble: If a record did not reach the disk.
    """
    from seamark.registry.edits import append_ops

    if runs.root is None:
        _record_there(runs, ref, list(ops))
        return
    if not append_ops(RunFolder(runs.root, ref.project, ref.run), ops):
        msg = f"{runs.root / ref.project / ref.run}: the change could not be written"
        raise Trouble(msg)
    runs.refresh(ref.project, ref.run)


def _record_there(runs: Runs, ref: RunRef, ops: Sequence[Mapping[str, Any]]) -> None:
    """Send the changes of operations to a server.

    Raises:
        SeamarkError: If the server cannot be reached, or refuses the changes.
    """
    pair = (ref.project, ref.run)
    changes: dict[str, Any] = {}
    for op in ops:
        if op["op"] in ("add", "remove"):
            changes[f"{op['op']}_tags"] = [str(one) for one in op["values"]]
        elif op["op"] == "delete":
            changes |= dict.fromkeys(path.partition("/")[2] for path in op["paths"])
        else:
            changes |= {path.partition("/")[2]: atom[1] for path, atom in op["atoms"].items()}
    if "description" in changes:
        found = runs.view(ref).attribute("sys/description")
        is_text = found is not None and isinstance(found.value, str)
        changes["description_was"] = found.value if found is not None and is_text else None
    runs.remote.edit(pair, changes)
    runs.refresh(*pair)


def as_recorded(text: str) -> str:
    """Return what a run keeps of a text that a person gave: no secrets.

    Raises:
        ArgumentError: If the environment says something else about secrets.
    """
    from seamark.options.settings import hidden_by_environment

    return hidden_by_environment().text(text)


def assigned(path: str, value: Any) -> list[dict[str, Any]]:
    """Return the records that set a value.

    Raises:
        Misuse: If it is a text that does not fit into one record.
    """
    from seamark.journal.format import LONG_TEXT, is_long
    from seamark.run.contents import assign_ops
    from seamark.values import encode_atom

    if isinstance(value, str) and is_long(value):
        misuse(f"{path}: expected at most {LONG_TEXT:,} characters, got {len(value):,}")
    return list(assign_ops({path: encode_atom(value)}))


def deleted(path: str) -> list[dict[str, Any]]:
    """Return the records that remove what is at a path."""
    return [{"op": "delete", "paths": [path]}]


def tags_changed(add: Iterable[str], remove: Iterable[str]) -> list[dict[str, Any]]:
    """Return the records that add tags and take others away; none where there is nothing to do."""
    parts = (("add", add), ("remove", remove))
    found = {op: [escape(tag) for tag in sorted(tags)] for op, tags in parts}
    return [{"op": op, "path": "sys/tags", "values": tags} for op, tags in found.items() if tags]


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
    before, after = _brief(screen, old), _brief(screen, new)
    if old == new:
        screen.styled([(f"{label}: {after}", ""), (" (as it was)", "dim")])
    else:
        screen.styled([(f"{label}: ", ""), (f"{before} → ", "dim"), (after, "bold")])


def _brief(screen: Screen, text: str) -> str:
    line = clean(text)
    return shorten(line, _LONGEST) if screen.terminal else line

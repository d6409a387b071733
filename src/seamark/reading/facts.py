"""Facts about a run as a whole: its code, its machine, its attempts and its problems.

Any program may have written the journals of a run: a value of an unexpected type is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.paths import is_inside
from seamark.reading.points import time_of
from seamark.reading.ranks import owning_processes, process_of

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute, JournalInfo
    from seamark.reading.reader import Reader

__all__ = [
    "FORWARD",
    "attempts_of",
    "code_of",
    "distribution_of",
    "environment_of",
    "health_of",
    "last_record_of",
]

FORWARD: Final = "monitoring/seamark/forward"
"""Below it, what places could not hold to which a run was sent on."""
_OUTPUT: Final = {"stdout_left_out": "stdout", "stderr_left_out": "stderr"}
"""Counters of bytes that a writer left out, and of what."""
_AROUND: Final = "/environment/"
"""Stands between the namespace of a process, which has its pid too, and what is around it."""
_TEXTS_OF_CODE: Final = {
    "entrypoint": "entrypoint",
    "commit": "git/commit",
    "branch": "git/branch",
    "version": "version",
}


def health_of(view: Reader) -> dict[str, Any]:
    """Return what is not well with a run, by kind; only what there is.

    The kinds are those of `seamark.reading.reader.Reader.troubles`, ``output`` (bytes that were
    left out, by stream) and ``forward`` (what is counted below `FORWARD`, by place).
    """
    found = dict(view.problems())  # not the attributes: anybody may write them
    paths = [
        path
        for path in view.families()
        if path.rpartition("/")[2] in _OUTPUT or is_inside(path, FORWARD)
    ]
    attributes = view.some(paths) if paths else []
    if output := _left_out(attributes):
        found["output"] = output
    places: dict[str, dict[str, Any]] = {}
    for one in attributes:
        if is_inside(one.path, FORWARD):
            place, _, kind = one.path.removeprefix(f"{FORWARD}/").partition("/")
            places.setdefault(place, {})[kind] = one.value
    if places:
        found["forward"] = places
    return found


def _left_out(attributes: Iterable[Attribute]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for one in attributes:
        stream = _OUTPUT.get(one.path.rpartition("/")[2])
        if stream is not None and type(one.value) is int and one.value > 0:
            sizes[stream] = sizes.get(stream, 0) + one.value
    return sizes


def last_record_of(journals: Iterable[JournalInfo], modified: Any) -> Any:
    """Return when a run itself last recorded something, a datetime; ``modified`` if it never did.

    A tag that somebody adds to a dead run does not make it look alive.
    """
    own = [
        one.last_t
        for one in journals
        if one.last_t and (one.header.get("owner", True) or one.header.get("rank"))
    ]
    return time_of(max(own)) if own else modified


def attempts_of(
    view: Reader, journals: Iterable[JournalInfo], attributes: Iterable[Attribute]
) -> dict[str, Any]:
    """Return how often a training was begun, and after which step the last attempt went on.

    Returns:
        Empty if it was begun once. Else ``count``; ``anew`` if the last one resumed from nothing;
        ``resumed_after``, the last step that is kept of those before, if any is.
    """
    headers = [one.header for one in journals]
    numbers = {
        one for header in headers if isinstance(one := header.get("attempt"), int) and one >= 0
    }
    if len(numbers) < 2:  # noqa: PLR2004 - once
        return {}
    last = max(numbers)
    found: dict[str, Any] = {"count": len(numbers)}
    if not any(one.get("positions") for one in headers if one.get("attempt") == last):
        return {**found, "anew": True}
    series = [one for one in attributes if one.family == "float_series" and one.value.count]
    longest = max(series, key=lambda one: (one.value.last_step, one.value.count), default=None)
    if longest is None:
        return found
    points = view.points(longest.path)
    before = points.step[(points.attempt >= 0) & (points.attempt < last)]
    return {**found, "resumed_after": float(before.max())} if len(before) else found


def code_of(attributes: Iterable[Attribute]) -> dict[str, Any]:
    """Return what was executed: texts, and what had changed since the commit; only what there is.

    Returns:
        ``entrypoint``, ``commit``, ``branch``, ``version``; ``files_changed``, or ``dirty`` where
        it is not known how many; ``diff``: ``"kept"`` or ``"partly"``.
    """
    found = {one.path: one for one in attributes if is_inside(one.path, "source_code")}
    values = {path: one.value for path, one in found.items() if one.family == "atom"}
    code: dict[str, Any] = {}
    for name, path in _TEXTS_OF_CODE.items():
        one = found.get(f"source_code/{path}")
        if one is not None and isinstance(one.value, str) and one.value:
            code[name] = one.value
    files = values.get("source_code/git/files_changed")
    if isinstance(files, int) and files > 0:
        code["files_changed"] = files
        diff = found.get("source_code/diff")
        if diff is not None and diff.family == "file":
            code["diff"] = "partly" if "source_code/diff_left_out" in values else "kept"
    elif values.get("source_code/git/dirty") is True:
        code["dirty"] = True
    return code


def distribution_of(attributes: Iterable[Attribute]) -> dict[str, int | str]:
    """Return what is recorded below ``distributed/``, by the last part of its path."""
    return {
        one.path.rpartition("/")[2]: one.value
        for one in attributes
        if is_inside(one.path, "distributed")
        and one.family == "atom"
        and isinstance(one.value, int | str)
    }


def environment_of(
    journals: Sequence[JournalInfo], attributes: Sequence[Attribute]
) -> dict[str, str]:
    """Return what the process told of where it ran that spoke for the run last, by name."""
    writers = {one.writer: one for one in journals}
    owners = owning_processes(one.header for one in writers.values())
    paths = {one.path for one in attributes}
    found: dict[str, dict[str, str]] = {}
    for one in attributes:
        space, _, name = one.path.partition(_AROUND)
        if name and f"{space}/pid" in paths and isinstance(one.value, str):
            found.setdefault(space, {})[name] = one.value

    def order(space: str) -> tuple[bool, int, int]:
        """Return what puts owners last, and of them the newest; a chosen namespace before ranks."""
        one = writers.get(space.rpartition("/")[2])
        owner = one is not None and process_of(one.header) in owners
        rank = one.header.get("rank") if one is not None else 0
        return owner, -rank if isinstance(rank, int) else 0, one.last_t if one is not None else 0

    return found[max(found, key=order)] if found else {}

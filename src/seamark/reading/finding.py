"""Search for a run by name or id, for the command and for Python.

A word is matched by these rules in order; the first match counts:

1. ``latest``: the most recently created run, even if another run has this name or id.
2. A complete id, or ``PROJECT/ID``; then the second id of an imported run (``KEY-12``).
3. A name (``sys/name``), or ``PROJECT/NAME``.
4. A generated name (`seamark.reading.names`), optionally after ``PROJECT/``. It still matches a run
   that was named later, but a recorded name takes precedence.
5. A prefix of an id; in Python only for reading, because a later run may share the prefix.

``PROJECT/`` means the project itself, or its sub-projects if the project has no such run; before
``latest`` it means both. Runs in the trash only match if requested, or if no other run matches.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import is_inside
from seamark.reading.names import LATEST, RunName, generated_name
from seamark.reading.text import age_words
from seamark.values import escape

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref


_MAX_LISTED: Final = 8
_MAX_COMPARED: Final = 5000
"""Maximum number of names compared to suggest a similar one."""

_Rule = Callable[[RunName, str], bool]
_EXACT_RULES: Final[tuple[_Rule, ...]] = (
    lambda one, word: one.run == word,
    lambda one, word: one.sys_id == word,
    lambda one, word: one.name == word,
    lambda one, word: generated_name(one.run) == word,
)
_PREFIX_RULE: Final[_Rule] = lambda one, word: one.run.startswith(word)  # noqa: E731 - one of the rules


class Finder:
    """Search by name or id in the runs that a catalog has at construction."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._where = catalog.where
        self._now_ns = catalog.now_ns()
        self._names = catalog.names()
        self._by_ref = {one.ref: one for one in self._names}

    def find(
        self,
        word: str,
        project: str | None = None,
        *,
        elsewhere: bool = True,
        trashed: bool = False,
        beginnings: bool = True,
    ) -> Ref:
        """Return project and id of the run that matches a word, by the rules of this module.

        Args:
            word: Name or id as given by the user.
            project: Restrict the search to this project and its sub-projects; None for all.
            elsewhere: Whether ``PROJECT/`` in the word may name a project outside ``project``.
            trashed: Whether to prefer runs in the trash to other runs.
            beginnings: Whether a prefix of an id is accepted.

        Raises:
            RunNotFoundError: If no run matches.
            ArgumentError: If several runs match; the message lists them, the newest first.
        """
        found = self._candidates(word, project, elsewhere=elsewhere, trashed=trashed, whole=True)
        begun = found or self._candidates(
            word, project, elsewhere=elsewhere, trashed=trashed, whole=False
        )
        if not found and not beginnings and begun:
            why = f"it is a prefix of the id of {self._listed(begun)}; recording into a run needs "
            raise RunNotFoundError(
                self._not_found_text(word, project, f"{why}its complete id or its name")
            )
        if not begun:
            raise RunNotFoundError(self._not_found_text(word, project, self._hint(word, project)))
        if len(begun) > 1:
            listed = self._listed(begun)
            raise ArgumentError(
                f"{word!r:.200} matches {len(begun)} runs: {listed} (give the id of one)"
            )
        return begun[0].ref

    def label(self, ref: Ref) -> str:
        """Return the name of a run, recorded or generated; its id if the name is ambiguous."""
        one = self._by_ref.get(ref)
        if one is None:
            return ref[1]
        for calls in self._runs_by_name:
            if found := calls.get(one.shown):
                kept = [each for each in found if each.trashed == one.trashed]
                return one.shown if kept == [one] and one.shown != LATEST else one.run
        return one.run

    def labels(self, refs: Sequence[Ref]) -> list[str]:
        """Return the names of several runs, recorded or generated.

        Equal names become ``PROJECT/NAME``, or, within one project, get the id in brackets.
        """
        names = [self._by_ref[ref].shown if ref in self._by_ref else ref[1] for ref in refs]
        qualified = [f"{project}/{name}" for (project, _), name in zip(refs, names, strict=True)]

        def label(at: int) -> str:
            if names.count(names[at]) == 1:
                return names[at]
            return (
                qualified[at]
                if qualified.count(qualified[at]) == 1
                else f"{names[at]} ({refs[at][1]})"
            )

        return [label(at) for at in range(len(refs))]

    @functools.cached_property
    def _runs_by_name(self) -> tuple[dict[str, list[RunName]], ...]:
        calls: tuple[dict[str, list[RunName]], ...] = ({}, {}, {}, {})
        for one in self._names:
            known = (one.run, one.sys_id, one.name, generated_name(one.run))
            for words, word in zip(calls, known, strict=True):
                if word:
                    words.setdefault(word, []).append(one)
        return calls

    # ---------------------------------------------------------------- matching rules

    def _candidates(
        self, word: str, project: str | None, *, elsewhere: bool, trashed: bool, whole: bool
    ) -> list[RunName]:
        scopes = list(self._scopes(escape(word), project, elsewhere=elsewhere))
        for _, below, rest in scopes:
            if rest == LATEST:
                return [one for one in below if one.trashed == trashed][:1]
        for rule in _EXACT_RULES if whole else (_PREFIX_RULE,):
            for own, below, rest in scopes:
                found = [one for one in own if rule(one, rest)]
                found = found or [one for one in below if rule(one, rest)]
                if found:
                    return [one for one in found if one.trashed == trashed] or found
        return []

    def _scopes(
        self, word: str, project: str | None, *, elsewhere: bool
    ) -> Iterator[tuple[list[RunName], list[RunName], str]]:
        """Yield the runs to search first, the runs to search next, and the word to match."""
        inside = _below(self._names, project)
        if word:
            yield inside, inside, word
        for left, rest in splits(word):
            below = _below(self._names if elsewhere else inside, left)
            if left and below and rest:
                yield [one for one in below if one.project == left], below, rest

    # ---------------------------------------------------------------- messages

    def _not_found_text(self, word: str, project: str | None, why: str) -> str:
        where = f"project {project!r} below {self._where}" if project else self._where
        return f"no run {word!r:.200} in {where} ({why})"

    def _hint(self, word: str, project: str | None) -> str:
        others = self._candidates(word, None, elsewhere=True, trashed=False, whole=True)
        if others:
            return f"but there is {self._listed(others)}"
        if not self._names and (meant := self._catalog.nearby_root()) is not None:
            return f"did you mean {meant}?"
        if any(is_inside(one.project, word) for one in self._names):
            return f"it is a project: seamark ls --project {word}, or {word}/latest"
        begun = [one for one in _below(self._names, project) if one.shown.startswith(word)]
        if word and len(begun) > 1:
            return f"it is a prefix of the names of {self._listed(begun)}"
        near = [one.shown for one in begun] if word else []
        if not near and len(self._names) < _MAX_COMPARED:
            known = {one.shown: None for one in _below(self._names, project)}
            near = difflib.get_close_matches(word, known, 1, 0.7)
        return f"did you mean {near[0]!r}?" if near else "seamark ls lists the runs"

    def _listed(self, found: Sequence[RunName]) -> str:
        listed = "; ".join(self._describe(one) for one in found[:_MAX_LISTED])
        more = f"; and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
        return listed + more

    def _describe(self, one: RunName) -> str:
        name = f"{one.name!r:.100}" if one.name else one.shown
        age = "unknown age"
        if one.created_ns:
            age = age_words((self._now_ns - one.created_ns) / 1e9)
        return f"{one.project}/{one.run} ({name}, {age}{', in the trash' * one.trashed})"


def _below(names: Iterable[RunName], project: str | None) -> list[RunName]:
    return [one for one in names if project is None or is_inside(one.project, project)]


def splits(word: str) -> Iterator[tuple[str, str]]:
    """Yield every split of a word at a slash as (project, rest), the longest project first."""
    left, slash, rest = word.rpartition("/")
    while slash:
        yield left, rest
        left, slash, more = left.rpartition("/")
        rest = f"{more}/{rest}"

"""Selection and order of runs, and search for models and artifacts by name.

A model has a key, such as ``RESNET``. A version has an id, and a name that consists of the key and
a number, such as ``RESNET-3``. A prefix that ends in ``-`` is ignored, because Neptune adds the key
of the project (``CLS-RESNET-3``). `seamark.reading.contents` describes the names of artifacts. Each
name may be preceded by ``PROJECT/``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.paths import home_of, is_inside, kind_of, model_key
from seamark.reading.catalog import Catalog, Selection
from seamark.reading.contents import ArtifactName
from seamark.reading.names import LATEST, RunName
from seamark.reading.states import GROUPS, STATES
from seamark.store.query.expression import And, Comparison, Expression, Field, Value
from seamark.store.query.kinds import near_state
from seamark.store.query.language import parse
from seamark.values import escape


def find_duplicate(
    catalog: Catalog, project: str, text: str, revision: int | None = None
) -> str | None:
    """Return the id of the newest run that started with or has a content hash, or None.

    Sub-projects are excluded.
    """
    query = f'(sys/start_hash = "{text}" OR sys/content_hash = "{text}")'
    if revision is not None:
        query += f" AND sys/revision = {revision}"
    refs = catalog.select(Selection(project=project, query=query), lambda _: None)
    return next((run for at, run in refs if at == project), None)


MODEL_KINDS: Final = ("model", "model_version")
_MAX_LISTED: Final = 8


def find_registered(
    catalog: Catalog,
    word: str,
    project: str | None = None,
    kinds: Sequence[str] = (*MODEL_KINDS, "artifact"),
) -> RunName:
    """Find a model, version or artifact by name; see the module docstring for the forms of names.

    ``project`` limits the search to a project, or to its sub-projects if it has no match; None
    searches all. Raises `RunNotFoundError`, or `ArgumentError` if the name is ambiguous.
    """
    left, _, rest = word.rpartition("/")
    named = [one for kind in kinds for one in catalog.names(kind)]
    for is_meant in (_matches_exactly, _matches_suffix):
        if found := _limit_to_project(
            [one for one in named if is_meant(one, rest)], left or project
        ):
            return _require_single(word, found)
    if "artifact" in kinds:
        versions = [one for one in named if kind_of(*one.ref) == "artifact"]
        return _find_version(catalog, word, left or project, versions)
    where = f"project {project!r} of {catalog.where}" if project else catalog.where
    raise RunNotFoundError(f"no {' or '.join(kinds).replace('_', ' ')} {word!r:.200} in {where}")


def _find_version(
    catalog: Catalog, word: str, project: str | None, named: list[RunName]
) -> RunName:
    wanted_name = ArtifactName.of(word)
    own = [
        one for one in named if wanted_name is not None and model_key(*one.ref) == wanted_name.name
    ]
    versions = _limit_to_project(own, project)
    if wanted_name is None or not versions:
        names = sorted({model_key(*one.ref) for one in named})
        hint = f"; there are {', '.join(names[:_MAX_LISTED])}" if names else ""
        raise _missing_artifact(catalog, word, hint)
    if wanted_name.digest is not None:
        found = [one for one in versions if one.run.startswith(wanted_name.digest)]
        if not found:
            raise _missing_artifact(catalog, word)
        return _require_single(word, found)
    place = _require_single(word, list({one.project: one for one in versions}.values())).project
    if wanted_name.version in (None, LATEST):
        return max(versions, key=lambda one: (not one.trashed, number_of(one) or 0, one.run))
    aliases = aliases_of(catalog, place)
    digest = aliases.get(str(wanted_name.version))
    if digest is None:
        numbers = [str(number) for number in sorted(filter(None, map(number_of, versions)))]
        listed = [*numbers[-_MAX_LISTED:], *sorted(aliases)[:_MAX_LISTED]]
        raise _missing_artifact(catalog, word, f"; {wanted_name.name} has {', '.join(listed)}")
    return next(one for one in versions if one.run == digest)


def _missing_artifact(catalog: Catalog, word: str, hint: str = "") -> RunNotFoundError:
    return RunNotFoundError(f"no artifact {word!r:.200} in {catalog.where}{hint}")


def aliases_of(catalog: Catalog, place: str) -> dict[str, str]:
    """Return the digest of each alias of the artifact at a place ``PROJECT/.artifacts/NAME``."""
    wanted = Selection(project=place, kind="artifact", trashed=None)
    table = catalog.table(wanted, ["sys/aliases"], lambda _: None)
    rows = zip(table.refs, table.rows, strict=True)
    return {alias: ref[1] for ref, row in rows for alias in row.get("sys/aliases", ())}


def _limit_to_project(named: list[RunName], project: str | None) -> list[RunName]:
    if project is None:
        return named
    own = [one for one in named if project in (one.project, home_of(one.project))]
    return own or [one for one in named if is_inside(one.project, project)]


def _require_single(word: str, found: list[RunName]) -> RunName:
    if len(found) > 1:
        listed = ", ".join(map(_label, found[:_MAX_LISTED]))
        raise ArgumentError(
            f"{word!r:.200} is ambiguous, it matches {len(found)}: {listed} (add the project)"
        )
    return found[0]


def _label(one: RunName) -> str:
    is_artifact = kind_of(*one.ref) == "artifact"
    return f"{home_of(one.project)}/{one.name}" if is_artifact else f"{one.project}/{one.run}"


def number_of(one: RunName) -> int | None:
    """Return the 1-based number of a version; None if it has none."""
    key = re.escape(model_key(*one.ref))
    found = re.fullmatch(f"{key}[:-]([1-9][0-9]*)", one.name or "")
    return None if found is None else int(found[1])


def _matches_exactly(one: RunName, word: str) -> bool:
    if word == one.run:
        return True
    return word == one.name and kind_of(*one.ref) != "model" and number_of(one) is not None


def _matches_suffix(one: RunName, word: str) -> bool:
    parts, kind = word.split("-"), kind_of(*one.ref)
    if kind == "model_version":
        return len(parts) > 2 and "-".join(parts[-2:]) == one.name  # noqa: PLR2004 - key and number
    return kind == "model" and len(parts) > 1 and parts[-1] == one.run


def expression_of(selection: Selection) -> Expression:
    """Return all conditions as one expression; raise `ArgumentError` or `QueryError`."""
    terms: list[Expression] = []
    if selection.query is not None:
        terms.append(parse(selection.query))
    for name, path in (("id", "sys/id"), ("state", "sys/state"), ("owner", "sys/owner")):
        given = selection.strings(name)
        if given is not None:
            values = [
                one
                for value in given
                for one in (_expand_state(value) if name == "state" else (value,))
            ]
            terms.append(Comparison(Field(path), "in", tuple(map(_make_value, values))))
    terms += [
        Comparison(Field("sys/tags", None, "string_set"), "contains", (_make_value(tag),))
        for tag in selection.strings("tag") or []
    ]
    if selection.trashed is not None:
        value = Value(selection.trashed, str(selection.trashed).lower())
        terms.append(Comparison(Field("sys/trashed"), "=", (value,)))
    return And(tuple(terms))


def _expand_state(state: str) -> tuple[str, ...]:
    wanted = state.lower()
    if wanted in GROUPS:
        return GROUPS[wanted]
    if wanted not in STATES:
        known = (*STATES, *GROUPS)
        raise ArgumentError(
            f"state: expected one of {', '.join(known)}, got {state!r}{near_state(wanted)}"
        )
    return (wanted,)


def _make_value(value: str) -> Value:
    kept = escape(value)
    return Value(kept, kept)

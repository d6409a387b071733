"""What people call models, versions of them and artifacts, and which one is meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.store.query.selection import MODEL_KINDS, find_registered, number_of


class Name(NamedTuple):
    """A container in a catalog, with its name for people."""

    project: str
    run: str
    name: str | None
    trashed: bool = False

    @property
    def ref(self) -> tuple[str, str]:
        return self.project, self.run


FIRST, SECOND, OTHER = "a" * 64, "ab" * 32, "c" * 64
DATA, BELOW = "p/.artifacts/data", "p/sub/.artifacts/data"
NAMES = {
    "model": [
        Name("p/.models", "NET", "RES-1"),  # a display name is no other key
        Name("q/.models", "NET", None),
        Name("p/sub/.models", "LOW", None),
    ],
    "model_version": [Name("p/.models/NET", "id1", "NET-1"), Name("p/.models/NET", "id2", "NET-2")],
    "artifact": [
        Name(DATA, FIRST, "data:1"),
        Name(DATA, SECOND, "data:2", trashed=True),
        Name(BELOW, OTHER, "data:1"),
        Name("q/.artifacts/x-1", OTHER, "x-1"),  # without a number
    ],
}


def table(wanted, *_):
    """Return the aliases of the versions of an artifact."""
    refs = [one.ref for one in NAMES[wanted.kind] if one.project == wanted.project]
    rows = [{"sys/aliases": ["best", "latest"]} if run == FIRST else {} for _, run in refs]
    return SimpleNamespace(refs=refs, rows=rows)


CATALOG: Any = SimpleNamespace(where="here", names=NAMES.__getitem__, table=table)


@pytest.mark.parametrize(
    ("word", "project", "found"),
    [
        ("NET", "p", ("p/.models", "NET")),
        ("q/NET", "p", ("q/.models", "NET")),
        ("ANY-NET", "q", ("q/.models", "NET")),
        ("LOW", "p", ("p/sub/.models", "LOW")),
        ("id2", None, ("p/.models/NET", "id2")),
        ("NET-2", None, ("p/.models/NET", "id2")),
        ("CLS-NET-2", None, ("p/.models/NET", "id2")),
        ("data", "p", (DATA, FIRST)),  # the other one is in the trash
        ("data:latest", "p", (DATA, FIRST)),
        ("data:2", "p", (DATA, SECOND)),
        ("data:best", "p", (DATA, FIRST)),
        ("p/sub/data", "p", (BELOW, OTHER)),
        (f"data@sha256:{SECOND[:8]}", "p", (DATA, SECOND)),
        (SECOND, "p", (DATA, SECOND)),
        ("x-1", None, ("q/.artifacts/x-1", OTHER)),
    ],
)
def test_a_word_means_one_container_of_the_project_named_or_of_those_below_it(word, project, found):
    assert find_registered(CATALOG, word, project).ref == found


@pytest.mark.parametrize(
    ("word", "project", "kinds", "error", "message"),
    [
        ("NET", None, MODEL_KINDS, ArgumentError, r"matches 2: p/.models/NET, q/.models/NET"),
        ("NET-2", None, ("model",), RunNotFoundError, "no model 'NET-2' in here"),
        ("NET-9", "p", MODEL_KINDS, RunNotFoundError, "no model or model version 'NET-9'"),
        ("RES-1", "p", MODEL_KINDS, RunNotFoundError, "in project 'p' of here"),
        ("data", None, ("artifact",), ArgumentError, "matches 2: p/data:.*, p/sub/data:1 .add the"),
        ("data:9", "p", ("artifact",), RunNotFoundError, "; data has 1, 2, best, latest"),
        ("dat", None, ("artifact",), RunNotFoundError, "no artifact 'dat' in here; there are data"),
        (f"data@sha256:{'d' * 8}", "p", ("artifact",), RunNotFoundError, "no artifact"),
    ],
)
def test_a_word_that_means_none_or_several_is_an_error(word, project, kinds, error, message):
    with pytest.raises(error, match=message):
        find_registered(CATALOG, word, project, kinds)


def test_the_number_of_a_version_stands_behind_its_key_or_name():
    assert [number_of(one) for one in NAMES["model_version"]] == [1, 2]
    assert [number_of(one) for one in NAMES["artifact"]] == [1, 2, 1, None]

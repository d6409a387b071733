"""Finding the run that a person means by a word."""

from __future__ import annotations

import pytest
from recording import QUIET

from seamark import init_run
from seamark.errors import ArgumentError, RunNotFoundError
from seamark.index.index import Index
from seamark.reading import names
from seamark.reading.finding import Finder
from seamark.reading.names import generated_name

pytestmark = pytest.mark.once

HOSTILE = [
    *("two\nlines", 'say "hi"', "it's", "100%", "a_c", "back\\slash", "back`tick", "%", "_", "*"),
    *("sys/name = 'x'", "' OR 1=1 --", "[red]", "../../etc/passwd", "\u202eabc", "nul\x00"),
    *("lone\udc80", "Ünï ✓", " spaces ", "x" * 3000),
]


@pytest.fixture
def record(tmp_path):
    """Record a run and return its id."""

    def record_one(project="p", **given):
        with init_run(project, root=tmp_path, **QUIET, **given) as run:
            pass
        return run.id

    return record_one


@pytest.fixture
def finder(tmp_path):
    """Return what finds the runs that there are now."""

    def made():
        with Index.open(tmp_path) as index:
            index.refresh()
            return Finder(index)

    return made


def test_unknown_word_is_an_error_that_names_the_nearest_run(finder, record, tmp_path):
    run = record("p", name="baseline")
    other = record("q", name="other")
    found = finder()
    for word in ("nobody", "", "/", "p/", "/base", "q/base", "p/nobody", "p/base/", "BASELINE"):
        with pytest.raises(RunNotFoundError) as caught:
            found.find(word, "p")
        assert f"no run {word!r} in project 'p' below {tmp_path}" in str(caught.value)
    with pytest.raises(RunNotFoundError, match="did you mean 'baseline'"):
        found.find("basline", "p")
    for word in ("other", other):
        with pytest.raises(RunNotFoundError, match=f"but there is q/{other} "):
            found.find(word, "p")
    assert found.find("baseline") == ("p", run)
    name = generated_name(record())
    with pytest.raises(RunNotFoundError, match=f"did you mean {name!r}"):
        finder().find(name[:-1])


def test_run_is_found_by_id_name_generated_name_and_beginning_of_its_id(finder, record):
    named, unnamed = record("team/x", name="a name"), record("team/x")
    found = finder()
    for run, *words in (
        (named, named, "a name", generated_name(named), named[:8]),
        (unnamed, unnamed, generated_name(unnamed), unnamed[:8], "latest"),
    ):
        for word in words:
            for written in (word, f"team/x/{word}", f"team/{word}"):
                for scope in (None, "team", "team/x"):
                    assert found.find(written, scope) == ("team/x", run), written


def test_latest_is_the_newest_run_whatever_its_name(finder, record):
    called = record("p", name="latest")
    record("p/sub", name="p/latest")
    inner = record("p/sub")
    newest = record("q")
    found = finder()
    assert found.find("latest") == ("q", newest)
    assert found.find("latest", "p") == found.find("p/latest") == ("p/sub", inner)
    assert found.find(called) == ("p", called)
    assert found.find(generated_name(called)) == ("p", called)
    assert found.label(("p", called)) == called
    with pytest.raises(RunNotFoundError, match="'latest' in project 'nowhere'"):
        found.find("latest", "nowhere")


def test_ambiguous_names_list_the_newest_runs_and_count_the_rest(finder, record):
    runs = [(project, record(project, name="twin")) for project in ("a", "b", "a/c")]
    with pytest.raises(ArgumentError) as caught:
        finder().find("twin")
    message = str(caught.value)
    places = [message.index(f"{project}/{run} ('twin', just now)") for project, run in runs]
    assert places == sorted(places, reverse=True)
    assert message.startswith("'twin' matches 3 runs: ")
    with pytest.raises(ArgumentError, match="matches 2 runs"):
        finder().find("twin", "a")
    for project, run in runs:
        assert finder().find(f"{project}/twin") == (project, run)
    for _ in range(7):
        record(name="twin")
    with pytest.raises(ArgumentError, match="; and 2 more"):
        finder().find("twin")


def test_no_wildcard_quote_or_path_in_a_name_finds_another_run(finder, record):
    runs, found = {name: record(name=name) for name in HOSTILE}, finder()
    for name, run in runs.items():
        assert found.find(name) == found.find(f"p/{name}") == ("p", run)
    for word in ("1%", "a%", "a.c", "abc", ".*", "?", "x" * 2999):
        with pytest.raises(RunNotFoundError):
            found.find(word)


def test_ids_come_before_names_and_these_before_generated_names(finder, record, monkeypatch):
    """Nobody can take another run's id, or its project and id, as a name."""
    first = record("p")
    for project in ("a", "z"):
        record(project, name=first)
        record(project, name=f"p/{first}")
    assert finder().find(first) == finder().find(f"p/{first}") == ("p", first)
    assert finder().label(("p", first)) == generated_name(first)
    named = record(name=generated_name(first))
    assert finder().find(generated_name(first)) == ("p", named)
    assert finder().label(("p", named)) == generated_name(first)
    second = record()
    monkeypatch.setattr(names, "_word_lists", lambda: (["one"], ["word"]))
    with pytest.raises(ArgumentError, match=f"p/{second} .*p/{first} "):
        finder().find("one-word")
    assert finder().label(("p", first)) == first


def test_generated_name_stays_good_after_renaming(finder, record, tmp_path):
    run = record()
    with init_run("p", root=tmp_path, with_id=run, owner=False, **QUIET) as opened:
        opened["sys/name"] = "better"
    assert finder().find(generated_name(run)) == finder().find("better") == ("p", run)
    assert finder().label(("p", run)) == "better"


def test_runs_in_the_trash_come_second_unless_asked_for(finder, record, tmp_path):
    old, new = record(name="twin"), record(name="twin")
    trash(tmp_path, new)
    found = finder()
    assert found.find("twin") == found.find("latest") == ("p", old)
    assert found.find("twin", trashed=True) == found.find("latest", trashed=True) == ("p", new)
    assert found.find(new) == ("p", new)
    assert found.find(old, trashed=True) == ("p", old)


def trash(root, run):
    with init_run("p", root=root, with_id=run, owner=False, **QUIET) as opened:
        opened.session.recorder.values.assign_quietly({"sys/trashed": True})


def test_other_projects_and_beginnings_can_be_excluded(finder, record):
    run = record("q", name="x")
    assert finder().find("q/x", "p") == ("q", run)
    with pytest.raises(RunNotFoundError):
        finder().find("q/x", "p", elsewhere=False)
    # Which run a beginning means may change with the next run.
    with pytest.raises(RunNotFoundError, match=f"prefix of the id of q/{run} .*complete id"):
        finder().find(run[:5], beginnings=False)
    for name in ("adam-1", "adam-2"):
        record("p", name=name)
    with pytest.raises(RunNotFoundError, match=r"the names of p/\w+ \('adam-2'.*'adam-1'"):
        finder().find("adam")

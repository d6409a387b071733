"""Finding the run that a person means by a word."""

from __future__ import annotations

from shutil import copytree

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
    "two\nlines",
    'say "hi"',
    "it's",
    "100%",
    "a_c",
    "back\\slash",
    "back`tick",
    "sys/name = 'x'",
    "' OR 1=1 --",
    "%",
    "_",
    "*",
    "[red]",
    "../../etc/passwd",
    "\u202eabc",
    "nul\x00",
    "lone\udc80",
    "Ünï ✓",
    " spaces ",
    "x" * 3000,
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


def test_a_word_that_means_nothing_is_an_exact_error(finder, record, tmp_path):
    """It names what was given and where it was looked for."""
    record(name="base")
    found = finder()
    for word in ("nobody", "", "/", "p/", "/base", "q/base", "p/nobody", "p/base/", "BASE"):
        with pytest.raises(RunNotFoundError) as caught:
            found.find(word, "p")
        assert f"no run {word!r} in project 'p' below {tmp_path}" in str(caught.value)


def test_the_error_helps_where_it_can(finder, record):
    """A name that is nearly right, and a run that is in another project."""
    run = record("p", name="baseline")
    other = record("q", name="other")
    with pytest.raises(RunNotFoundError, match="did you mean 'baseline'"):
        finder().find("basline", "p")
    with pytest.raises(RunNotFoundError, match=f"did you mean {generated_name(record())!r}"):
        finder().find(finder().label(("p", finder().find("latest")[1]))[:-1])
    for word in ("other", other):
        with pytest.raises(RunNotFoundError, match=f"but there is q/{other} "):
            finder().find(word, "p")
    assert finder().find("baseline") == ("p", run)


def test_every_way_to_name_a_run(finder, record):
    """Id, name, generated name and the beginning of an id, each also behind the project."""
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


def test_latest_is_the_newest_whatever_runs_are_called(finder, record):
    """A run of that name, or "p/latest", does not stand in its way; it goes by its id."""
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


def test_latest_is_nothing_where_there_is_nothing(finder, record, tmp_path):
    """Not a run of that name, nor one whose id begins so."""
    run = record("p", name="latest")
    (tmp_path / "p" / run).rename(tmp_path / "p" / "latest-1")
    (tmp_path / "p" / "latest").mkdir()
    copytree(tmp_path / "p" / "latest-1" / "journal", tmp_path / "p" / "latest" / "journal")
    for one in ("latest-1", "latest"):
        with init_run("p", root=tmp_path, with_id=f"p/{one}", owner=False, **QUIET) as opened:
            opened.session.recorder.values.assign_quietly({"sys/trashed": True})
    for word in ("latest", "p/latest"):
        with pytest.raises(RunNotFoundError):
            finder().find(word)
        with pytest.raises(RunNotFoundError):
            init_run("p", root=tmp_path, with_id=word)


def test_several_that_may_be_meant_are_listed_the_newest_first(finder, record):
    """With project, id, name and age; the project tells them apart."""
    runs = [(project, record(project, name="twin")) for project in ("a", "b", "a/c")]
    with pytest.raises(ArgumentError) as caught:
        finder().find("twin")
    message = str(caught.value)
    places = [message.index(f"{project}/{run} ('twin', just now)") for project, run in runs]
    assert places == sorted(places, reverse=True)
    assert message.startswith("'twin' may be any of 3 runs: ")
    with pytest.raises(ArgumentError, match="any of 2 runs"):
        finder().find("twin", "a")
    for project, run in runs:
        assert finder().find(f"{project}/twin") == (project, run)


def test_many_that_may_be_meant_are_counted(finder, record):
    """A message stays one that can be read."""
    for _ in range(10):
        record(name="\n" * 300)
    with pytest.raises(ArgumentError, match="; and 2 more") as caught:
        finder().find("\n" * 300)
    assert len(str(caught.value)) < 2000
    assert "\n" not in str(caught.value)


def test_names_mean_themselves_and_nothing_else(finder, record):
    """Whatever is in them: no wildcard, quote, path or query in a name reaches another run."""
    runs, found = {name: record(name=name) for name in HOSTILE}, finder()
    for name, run in runs.items():
        assert found.find(name) == ("p", run)
        assert found.find(f"p/{name}") == ("p", run)
    for word in ("1%", "a%", "a.c", "abc", ".*", "?", "x" * 2999):
        with pytest.raises(RunNotFoundError):
            found.find(word)


def test_a_whole_id_comes_before_names(finder, record):
    """Nobody can take another run's id, or its project and id, as a name."""
    first = record("p")
    for project in ("a", "z"):
        record(project, name=first)
        record(project, name=f"p/{first}")
    assert finder().find(first) == finder().find(f"p/{first}") == ("p", first)
    assert finder().label(("p", first)) == generated_name(first)


def test_a_recorded_name_comes_before_a_generated_one(finder, record):
    """Whoever is called what another run would be goes by it; the other one shows its id."""
    unnamed = record()
    named = record(name=generated_name(unnamed))
    assert finder().find(generated_name(unnamed)) == ("p", named)
    assert finder().label(("p", named)) == generated_name(unnamed)


def test_two_runs_of_one_generated_name_are_told_apart(finder, record, monkeypatch):
    """As two of one recorded name: both are listed, and each is shown by its id."""
    first, second = record(), record()
    monkeypatch.setattr(names, "_words", lambda: (["one"], ["word"]))
    with pytest.raises(ArgumentError, match=f"p/{second} .*p/{first} "):
        finder().find("one-word")
    assert finder().label(("p", first)) == first


def test_a_run_goes_by_its_generated_name_after_it_was_given_another(finder, record, tmp_path):
    """What was noted down stays good; what is shown is the new name."""
    run = record()
    with init_run("p", root=tmp_path, with_id=run, owner=False, **QUIET) as opened:
        opened["sys/name"] = "better"
    assert finder().find(generated_name(run)) == finder().find("better") == ("p", run)
    assert finder().label(("p", run)) == "better"


def test_runs_in_the_trash_come_second(finder, record, tmp_path):
    """Unless they are asked for; of one that is alone it does not matter."""
    old, new = record(name="twin"), record(name="twin")
    with init_run("p", root=tmp_path, with_id=new, owner=False, **QUIET) as run:
        run.session.recorder.values.assign_quietly({"sys/trashed": True})
    found = finder()
    assert found.find("twin") == found.find("latest") == ("p", old)
    assert found.find("twin", trashed=True) == found.find("latest", trashed=True) == ("p", new)
    assert found.find(new) == ("p", new)
    assert found.find(old, trashed=True) == ("p", old)


def test_a_name_that_is_no_text_is_none(finder, record, tmp_path):
    """Somebody may have recorded anything there."""
    run = record()
    with init_run("p", root=tmp_path, with_id=run, owner=False, **QUIET) as opened:
        opened["sys/name"] = 5
    with pytest.raises(RunNotFoundError):
        finder().find("5x")
    assert finder().label(("p", run)) == generated_name(run)


def test_a_project_outside_can_be_shut_out(finder, record):
    """What belongs to a project finds nothing elsewhere."""
    run = record("q", name="x")
    assert finder().find("q/x", "p") == ("q", run)
    with pytest.raises(RunNotFoundError):
        finder().find("q/x", "p", elsewhere=False)


def test_the_beginning_of_an_id_is_for_reading(finder, record):
    """Which run it begins may change with the next one; the error says which it is now."""
    run = record(name="n")
    with pytest.raises(RunNotFoundError, match=f"begins the id of p/{run} .*whole id or its name"):
        finder().find(run[:5], beginnings=False)


def test_the_beginning_of_several_names_lists_them(finder, record):
    """It means none of them."""
    for name in ("adam-1", "adam-2"):
        record("p", name=name)
    with pytest.raises(RunNotFoundError, match=r"begins the name of p/\w+ \('adam-2'.*'adam-1'"):
        finder().find("adam")

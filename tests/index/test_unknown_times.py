"""Runs of which nothing can be read: when they were created is not known, and not said."""

from __future__ import annotations

from itertools import product

import pytest
from click.testing import CliRunner
from command import app
from recording import QUIET

import seamark
from seamark.index.index import Index
from seamark.journal.folder import hashed_run_id
from seamark.reading.catalog import Selection

NOTHING = "0" * 16


@pytest.fixture
def root(tmp_path):
    """A root with two runs, and one without a journal."""
    for name in "ab":
        with seamark.init_run("p", name=name, root=tmp_path, custom_run_id=name, **QUIET) as run:
            run["x"] = 1
    (tmp_path / "p" / NOTHING / "journal").mkdir(parents=True)
    return tmp_path


def test_unknown_times_are_last_and_match_no_query(root):
    with Index.open(root) as index:
        index.refresh()
        for path, limit, ascending in product(
            ("sys/creation_time", "sys/modification_time"), (None, 3), (False, True)
        ):
            wanted = Selection(sort_by=path, ascending=ascending, limit=limit)
            table = index.table(wanted, [path])
            assert table.rows[-1]["sys/id"] == NOTHING
            assert [row.get(path) is None for row in table.rows] == [False, False, True]
            assert index.select(wanted)[-1] == ("p", NOTHING)
        for query, found in (("< '2020-01-01'", 0), (">= '1960-01-01'", 2), ("= '1970-01-01'", 0)):
            refs = index.select(Selection(query=f"sys/creation_time {query}"))
            assert (len(refs), ("p", NOTHING) in refs) == (found, False)


def test_unknown_time_is_never_shown_as_the_epoch(root):
    run = seamark.init_run("p", root=root, with_id=NOTHING, mode="read-only")
    assert not run.exists("sys/creation_time")
    assert (run.report()["creation_time"], run.report()["last_record"]) == (None, None)
    project = seamark.init_project("p", root=root, mode="read-only")
    said = [run._repr_html_(), project._repr_html_(), repr(run.report())]
    for words in (
        "ls --json",
        "ls --csv",
        "ls --columns sys/creation_time,sys/modification_time",
        f"show {NOTHING}",
        f"show {NOTHING} --json",
        f"compare {NOTHING} {hashed_run_id('p', 'a')}",
    ):
        answer = CliRunner().invoke(app, [*words.split(), "--root", str(root)])
        assert answer.exit_code == 0, (words, answer.output, answer.exception)
        said.append(answer.output)
    assert [one for one in said if "1970-" in one or "1969-" in one] == []

"""Runs that are parts of others in `seamark ls`."""

from __future__ import annotations

import json


def test_child_runs_are_listed_below_their_parent(start, screen, cli):
    """On a terminal, where nobody asked for another order."""
    with start(name="sweep") as run:
        with start(name="one", parent=run) as one:
            pass
        start(name="two", parent=run).stop()
        start(name="inner", parent=one).stop()
    start(name="newest").stop()
    shown = screen("ls", columns=100)
    names = ("newest", "sweep", "two", "one", "inner")
    lines = [line for line in shown.splitlines() if any(name in line for name in names)]
    assert [next(name for name in names if name in line) for line in lines] == list(names)
    assert [line.index(line.lstrip(" └")[0]) for line in lines] == [0, 0, 2, 2, 4]
    assert "sys/parent" not in shown
    assert "└" not in screen("ls", "--sort", "sys/name", "--asc")
    assert "└" not in cli("ls").output
    listed = json.loads(cli("ls", "--json", "-c", "sys/parent").output)
    assert sum(row["sys/parent"] == run.id for row in listed) == 2


def test_runs_that_are_their_own_ancestors_are_all_listed(start, screen):
    with start(name="one") as one, start(name="two", parent=one) as two:
        one["sys/parent"] = two.id
    with start(name="self") as itself:
        itself["sys/parent"] = itself.id
    shown = screen("ls", columns=100)
    assert all(name in shown for name in ("one", "two", "self"))

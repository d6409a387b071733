"""Runs that are parts of others in `seamark ls`."""

from __future__ import annotations

import json
import re

import seamark


def test_child_runs_are_listed_below_their_parent(root, terminal, cli):
    with seamark.init_run(name="sweep") as run:
        with seamark.init_run(name="one", parent=run) as one:
            pass
        with seamark.init_run(name="two", parent=run):
            pass
        with seamark.init_run(name="inner", parent=one):
            pass
    with seamark.init_run(name="newest"):
        pass
    code, shown = terminal("ls", "--root", root, columns=100)
    assert not code
    names = ("newest", "sweep", "two", "one", "inner")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    lines = [line for line in shown.splitlines() if any(name in line for name in names)]
    assert [next(name for name in names if name in line) for line in lines] == list(names)
    assert [line.index(line.lstrip(" └")[0]) for line in lines] == [0, 0, 2, 2, 4]
    assert "sys/parent" not in shown
    _, by_name = terminal("ls", "--root", root, "--sort", "sys/name", "--asc")
    assert "└" not in by_name
    assert "└" not in cli("ls", "--root", root).output
    listed = json.loads(cli("ls", "--root", root, "--json", "-c", "sys/parent").output)
    assert sum(row["sys/parent"] == run.id for row in listed) == 2


def test_runs_that_are_their_own_ancestors_are_all_listed(root, terminal):
    with seamark.init_run(name="one") as one, seamark.init_run(name="two", parent=one) as two:
        one["sys/parent"] = two.id
    with seamark.init_run(name="self") as itself:
        itself["sys/parent"] = itself.id
    code, shown = terminal("ls", "--root", root, columns=100)
    assert not code
    assert all(name in shown for name in ("one", "two", "self"))

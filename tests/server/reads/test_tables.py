"""Tables of many runs over HTTP: what the store says, of what may be read and of nothing else."""

from __future__ import annotations

import pytest
from journal_builder import START, JournalBuilder

from seamark.reading.catalog import ChangedRun, Selection
from seamark.reading.codec import pack
from seamark.reading.names import generated_name
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.server.access import Role
from seamark.store.read.tables import query_runs


def run(name: str, lr: float, **atoms) -> JournalBuilder:
    made = JournalBuilder(name).op("state", state="running")
    made.assign(lr=lr, **atoms)
    for step in range(5):
        made.row({"loss": lr / (step + 1)}, float(step))
    return made


def fill(here, count: int = 6) -> None:
    for at in range(count):
        here.put(f"run{at}", run(f"w{at}", at / 10, model="ab"[at % 2]).wait(at))
    here.put("secret0", run("s", 0.9, hidden=1), project="vault/x")
    here.put(".project", JournalBuilder("p", owner=False).assign(note="of all"))


def same(one, other) -> bool:
    return pack(one) == pack(other)


def test_table_equals_that_of_the_store_and_comes_in_windows(here) -> None:
    fill(here)
    columns = ["lr", "loss:min", "sys/*", "model"]
    store = here.server.store()
    asked = {"project": "team", "query": "loss:min < 0.05", "sort_by": "lr"}
    asked |= {"ascending": True, "limit": 3}
    with store.database.reading() as connection:
        expected = query_runs(store, connection, Selection(**asked), columns, here.now_ns)
    with here.client() as asks:
        told = asks.read("table", **asked, columns=columns)
    assert same(told.table, expected)
    assert told.names == [generated_name(run) for _, run in expected.refs]
    # Those beyond a limit are counted unless that is not asked for: it costs more than a page.
    with here.client() as asks:
        pages = [
            asks.read("table", project="team/x", offset=at, limit=4, columns=["lr"]).table
            for at in (0, 4)
        ]
        refs = asks.read("select", project="team/x")
        assert [(len(one), one.total, one.offset) for one in pages] == [(4, 6, 0), (2, 6, 4)]
        assert [ref for page in pages for ref in page.refs] == refs
        for limit, total in ((2, None), (100, 6)):
            asked = {"project": "team/x", "columns": ["lr"], "limit": limit}
            assert asks.read("table", **asked).table.known_total == 6
            assert asks.read("table", counted=False, **asked).table.known_total == total
            chosen = asks.told("select", project="team/x", limit=limit, counted=False)
            assert chosen.total == total


def test_answers_about_many_runs_are_of_bounded_length(here, monkeypatch) -> None:
    monkeypatch.setattr("seamark.server.answering.MAX_ANSWER_BYTES", 1)
    monkeypatch.setattr("seamark.server.answering._ITEMS_AT_ONCE", 4)
    fill(here)
    with here.client() as asks:
        first = asks.told("select", project="team/x", unknown="tell", sort_by="nope")
        assert (len(first.answer), first.total, len(first.told)) == (4, 6, 1)
        rest = asks.told("select", project="team/x", next=first.next)
        assert (len(rest.answer), rest.total, rest.next) == (2, 6, None)
    catalog, said = RemoteCatalog(Connection(here.url, here.admin)), []
    wanted = Selection(project="team/x", sort_by="nope")
    assert catalog.select(wanted, said.append) == first.answer + rest.answer
    groups = catalog.groups(wanted, ["lr"], unknown=said.append)
    assert (len(groups), groups.total, len(said)) == (6, 6, 2)
    catalog.close()
    # Series of several runs.
    monkeypatch.setattr("seamark.server.routes.tables._RUNS_AT_ONCE", 2)
    monkeypatch.setattr("seamark.server.routes.tables.MAX_POINTS", 12)
    asked = {"refs": [["team/x", f"run{at}"] for at in range(6)], "paths": ["lo*"]}
    with here.client() as asks:

        def in_parts():
            found, following = [], ""
            while following is not None:
                told = asks.told("series", **asked, next=following)
                found.append([(one.run, one.begins, len(one.points)) for one in told.answer])
                following = told.next
            return found

        assert in_parts() == [
            [("run0", True, 5), ("run1", True, 5), ("run2", True, 2)],
            [("run2", False, 3), ("run3", True, 5), ("run4", True, 4)],
            [("run4", False, 1), ("run5", True, 5)],
        ]
        body = {"refs": [["team/x", "gone"], ["team/x", "run1"]], "paths": ["loss"], "points": 10}
        (found,) = asks.read("series", **body)
        assert len(found.curve) == 5
        body = {"refs": [["team/x", "run1"]], "paths": ["lss"], "unknown": "refuse"}
        assert asks.refused("series", **body) == (422, "query")


def test_counts_hints_and_changes_are_of_readable_runs_alone(here) -> None:
    """`tests/server/test_guard.py` looks for the rest of what must not be told."""
    fill(here)
    wrong = [{"query": "hidden = 1"}, {"sort_by": "hidden"}]
    wrong += [{"columns": [name]} for name in ("hidden", "hid*")]
    with here.client(here.reader("ada", "team/x")) as asks:
        assert [one.project for one in asks.read("projects")] == ["team/x"]
        assert asks.read("table", columns=["lr"]).table.total == 6
        assert b"hidden" not in asks.ask("table", columns=["*"]).content
        told = asks.ask("table", query="hidde = 1")
        assert (told.status_code, "'hidden'" in told.text) == (422, False)
        for question in wrong:
            assert asks.refused("table", **question) == (422, "query"), question
        assert asks.read("select", project="vault") == []
        told = asks.told("series", refs=[["vault/x", "secret0"]], paths=["hidden"], unknown="tell")
        assert (told.answer, "no run has 'hidden'" in str(told.told)) == ([], True)
        cursor = asks.read("changes").cursor
        here.put("secret1", run("t", 0.8), project="vault/x")
        assert asks.read("changes", cursor=cursor).runs == []
    with here.client() as asks:
        assert asks.read("table", columns=["hidden"]).table.total == 8
        assert "hidden" in asks.read("paths")
        told = asks.ask("table", query="hidde = 1").text
        assert "did you mean" in told or "'hidden'" in told
    here.put("run0", run("u", 0.1), project="open/x")
    with here.client("") as asks:
        assert asks.refused("table") == (401, "token-needed")  # nothing is public
        here.server.accounts.set_visibility("open/x", "public", by="test")
        assert asks.read("table", columns=["lr"]).table.total == 1
        assert [one.project for one in asks.read("projects")] == ["open/x"]
    here.server.accounts.set_visibility("open/x", "private", by="test")


REFUSED = [
    {"query": "lr >"},
    {"query": "(" * 16_000},
    {"query": 'model MATCHES "(a+)+$"', "limit": 0},
    {"offset": 2**70},
    {"columns": ["a/" * 3000]},
    {"state": "nowhere"},
    {"nonsense": 1},
]


def test_invalid_or_costly_tables_are_refused_with_a_hint(here) -> None:
    fill(here, 1)
    here.put("run1", run("w", 0.1, model="a" * 5000 + "!"))
    with here.client() as asks:
        for body in REFUSED:
            answer = asks.ask("table", **body)
            assert answer.status_code in (200, 413, 422), (str(body)[:80], answer.text)
            assert answer.status_code == 200 or answer.json()["hint"], str(body)[:80]
        pattern = 'model MATCHES "(a|aa)+$"'  # would backtrack for years
        answer = asks.ask("table", query=pattern, columns=["lr"])
        assert answer.status_code in (200, 422, 503), answer.text


def test_unchanged_table_is_not_sent_again(here) -> None:
    here.now_ns = START + 10**9
    fill(here)
    with here.client() as asks:
        seen = {}
        for verb in ("table", "projects", "names", "paths"):
            seen[verb] = asks.told(verb).seen
            assert asks.told(verb, seen=seen[verb]).unchanged
        here.put("run0", run("w0", 0.0, model="a").assign(lr=7.0))
        assert not asks.told("paths", seen=seen["paths"]).unchanged
        known = asks.told("projects").seen
        here.now_ns += 10**12
        later = asks.told("projects", seen=known)
        assert [one.running for one in later.answer] == [0, 0]
        # What changes with every second is never taken for what it was.
        assert asks.told("table", query='sys/creation_time > "-2h"').seen == ""
        for verb, asked in (("select", {}), ("fields", {}), ("losses", {"refs": []})):
            assert asks.told(verb, **asked).seen == ""
    with here.client(here.reader("ann", "team/x")) as asks:  # who sees less has another answer
        assert not asks.told("table", seen=seen["table"]).unchanged


def test_changes_name_runs_that_were_saved_or_fell_silent(here) -> None:
    here.now_ns = START + 10**9
    fill(here, 2)
    with here.client() as asks:
        first = asks.read("changes")
        assert first.reset is True
        assert asks.read("changes", cursor=first.cursor).runs == []
        here.put("run1", run("w1", 0.1).assign(lr=3.0))
        told = asks.read("changes", cursor=first.cursor)
        paths = ["loss", "lr", "model"]
        assert told.runs == [ChangedRun("team/x", "run1", "running", gone=False, paths=paths)]
        assert asks.read("changes", cursor=told.cursor).runs == []
        assert asks.read("changes", cursor=told.cursor, project="vault").runs == []
        here.now_ns += 10**12
        silent = asks.read("changes", cursor=told.cursor)
        crashed = {"run0", "run1", "secret0"}
        assert {(one.run, one.state) for one in silent.runs} == {(it, "crashed") for it in crashed}
        for odd in ("x", "a.b.c", f"{told.cursor}0.0", "\u0662.\u0662.\u0662"):
            assert asks.read("changes", cursor=odd).reset in (True, False)
        assert asks.read("changes", cursor="store_v0.1.1").reset is True


def test_groups_have_mean_and_spread_and_curves_equal_those_of_each_run(here) -> None:
    fill(here, 7)

    def asked(**more):
        body = {"project": "team/x", "by": ["model"], "columns": ["lr", "model"], **more}
        return {one.by["model"]: one for one in asks.read("groups", **body)}

    with here.client() as asks:
        by = asked(query="lr < 0.6")
        lr, model = by["a"].values["lr"], by["a"].values["model"]
        assert (lr.n, lr.mean, lr.std) == (3, pytest.approx(0.2), pytest.approx(0.2))
        assert (by["a"].n, model.n, model.odd) == (3, 0, 3)
        assert sorted(ref[1] for ref in by["b"].refs) == ["run1", "run3", "run5"]
        assert list(asked()) == ["a", "b"]  # as their first runs: the newest is of a
        assert list(asked(query="lr < 0.6", order="lr")) == ["b", "a"]  # means of 0.3 and 0.2
        assert list(asked(query="lr < 0.6", order="lr", least_first=True)) == ["a", "b"]
        assert list(asked(order="model", limit=1)) == ["b"]
        assert list(asked(order=":n", least_first=True)) == ["b", "a"]
        # Runs without points are left out.
        refs = [["team/x", "run1"], ["team/x", "run9"], ["team/x", "run2"]]
        told = asks.read("curves", refs=refs, paths=["loss", "none"], px=100)
        assert [one.run for one in told.curves] == ["run1", "run2"]
        one = {"project": "team/x", "run": "run1", "path": "loss", "look": {"points": 100}}
        assert same(told.curves[0].drawing, asks.read("drawing", **one))
        assert told.cursor
        many = {"refs": refs * 100, "paths": ["loss", "none"]}
        assert asks.refused("curves", **many) == (413, "too-many-series")


def test_projects_count_states_as_the_table_shows_them(here) -> None:
    here.now_ns = START + 10 * 10**9
    for name, trashed in (("one", False), ("two", False), ("three", True)):
        made = JournalBuilder(name).op("state", state="running")
        here.put(name, made.assign(sys__trashed=trashed))
    here.put("four", JournalBuilder("four").op("state", state="completed"))
    here.put("five", JournalBuilder("five", header=False))
    keys = ("runs", "running", "crashed", "trashed")
    with here.client() as asks:

        def counted():
            (told,) = asks.read("projects")
            states = [row["sys/state"] for row in asks.read("table").table.to_rows()]
            assert told.running == states.count("running")
            assert told.crashed == states.count("crashed")
            return [getattr(told, key) for key in keys]

        assert counted() == [4, 2, 0, 1]
        here.now_ns = START + 10**12
        assert counted() == [4, 0, 2, 1]


def test_contributor_edits_runs_and_overwrites_nothing_unseen(here) -> None:
    fill(here, 3)
    worker = here.reader("cleo", "team/x", role=Role.CONTRIBUTOR)
    viewer = here.reader("vic", "team/x")
    refs = [["team/x", "run0"], ["vault/x", "secret0"], ["team/x", "run9"]]
    with here.client(worker) as asks:
        body = {"refs": refs, "add_tags": ["good"], "name": "better", "trashed": True}
        answer = asks.patch("runs", json=body)
        told = answer.json()["runs"]
        assert [(one["ok"], one["error"]) for one in told] == [
            (True, None),
            (False, "not-found"),
            (False, "not-found"),
        ]
    ((project, name, ops),) = here.given.recorded
    assert (project, name) == ("team/x", "run0")
    assert {"op": "add", "path": "sys/tags", "values": ["good"]} in ops
    (atoms,) = [op["atoms"] for op in ops if op["op"] == "assign"]
    assert atoms == {"sys/name": ["string", "better"], "sys/trashed": ["bool", True]}
    with here.client(viewer) as asks:
        one = {"refs": refs[:1], "add_tags": ["x"]}
        assert asks.patch("runs", json=one).status_code == 403
        misspelt = {"refs": refs[:1], "name": "x", "trashd": True}
        for odd in ({"refs": refs}, {"add_tags": ["x"]}, misspelt):
            assert asks.patch("runs", json=odd).status_code == 422
    assert len(here.given.recorded) == 1
    here.empty()
    # Of two people who edit at once the second is shown what the first wrote.
    here.put("run0", run("w", 1.0, sys__description="theirs"))
    body = {"refs": [["team/x", "run0"]], "description": None}
    with here.client() as asks:
        answer = asks.patch("runs", json=body)
        assert (answer.status_code, answer.json()["description"]) == (409, "theirs")
        assert here.given.recorded == []
        answer = asks.patch("runs", json=body | {"description_was": "theirs"})
        assert answer.json()["runs"][0]["ok"] is True
    assert here.given.recorded[0][2] == [{"op": "delete", "paths": ["sys/description"]}]

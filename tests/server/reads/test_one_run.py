"""One run over HTTP is what the store's own reader says of it."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from typing import Any

from journal_builder import START, JournalBuilder
from msgspec import UNSET

from seamark.process.liveness import process_facts
from seamark.reading.codec import pack
from seamark.reading.curves import Look
from seamark.reading.reader import Reader
from seamark.remote.http import run
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.server.routes import reads as routes
from seamark.store.read.run import RunReader

FIRST = "team/x"
RUN = {"project": FIRST, "run": "run0"}
LONG = {"sha256": "a" * 64, "size": 5_000_000}


def journal(name: str = "one", **facts) -> JournalBuilder:
    """A run with everything in it: odd numbers, long texts, references, sets, all series."""
    made = JournalBuilder(name, rank=0, world_size=1, **facts)
    made.op("state", state="running")
    made.assign(sys__name="first", lr=0.1, nothing=None, flag=True, text="a\u0000b € 'x'")
    made.op("assign", atoms={"big": ["int", 2**63], "nan": ["float", "nan"]})
    made.op("assign", atoms={"conf": ["json", '{"$": 1, "v": [1, 1.0]}'], "long": ["text", LONG]})
    made.op("assign", atoms={"when": ["datetime", "2026-01-31T12:00:00+01:00"]})
    made.op("add", path="sys/tags", values=["b", "a"])
    made.op("file", path="note", file={"ref": "file:///etc/hostname", "name": "hostname"})
    for step in range(300):
        value = math.nan if step == 7 else math.inf if step == 8 else 1 / (step + 1)
        made.row({"loss": value, "epoch": step // 10}, float(step))
    made.texts("log", [0.0, "hello\n"], [1.0, LONG])
    made.texts("monitoring/x/stdout", [0.0, "line 1\nline 2\n"], [1.0, "line 3\n"])
    made.histograms("h", (0.0, [0, 1, 2], [3, 4.5]))
    return made


def reader(here, run: str = "run0", project: str = FIRST) -> RunReader:
    return RunReader(
        here.server.store,
        project,
        run,
        lambda *ref: lambda name: here.given.source(*ref, name),
        now_ns=lambda: here.now_ns,
    )


def same(one, other) -> bool:
    return pack(one) == pack(other)


def in_parts(asks, **question) -> list[list[tuple[str, bool, int]]]:
    """Return the parts in which series come: path, whether it begins, and number of points."""
    found, following = [], ""
    while following is not None:
        told = asks.told("points", **RUN, **question, next=following)
        found.append([(part.path, part.begins, len(part.points)) for part in told.answer])
        following = told.next
    return found


STDOUT = "monitoring/x/stdout"
EVERY: dict[str, list[dict[str, Any]]] = {
    # the arguments of several calls of each method of a reader; None in place of a journal
    "attributes": [{}, {"namespace": "sys"}, {"namespace": "none"}],
    "attribute": [{"path": path} for path in ("big", "nan", "conf", "long", "when", "loss", "h")]
    + [{"path": path} for path in ("note", "sys/tags", "log", "none", "lr/none")],
    "has": [{"path": "sys"}, {"path": "none"}],
    "series_paths": [{}],
    "families": [{}],
    "some": [{"paths": ["when", "lr", "none", "sys/state", "lr"]}, {"paths": []}],
    "crash": [{}],
    "has_failed": [{}],
    "ranks": [{}],
    "journals": [{}],
    "problems": [{}],
    "points": [{"path": path} for path in ("loss", "epoch", "none")]
    + [{"path": "loss", "attempt": one} for one in ("all", "replaced", 0, 1, 7)]
    + [{"path": "loss", "limit": 7}],
    "many_points": [{"paths": ["loss", "none", "epoch"]}, {"paths": ["loss"], "limit": 7}],
    "curve": [{"path": "loss", "points": 50}, {"path": "none", "points": 2, "attempt": "all"}],
    "drawing": [
        {"path": "loss"},
        {"path": "loss", "look": Look(50, x="epoch", window=3.0), "attempt": "all"},
        {"path": "none"},
    ],
    "texts": [{"path": STDOUT, "attempt": one} for one in (0, "replaced")]
    + [{"path": path} for path in ("log", "none")],
    "text_page": [{"file": None, "paths": [STDOUT]}, {"file": None, "paths": [], "begin": 99}],
    "text_begin": [
        {"file": None, "paths": [STDOUT], "lines": 1},
        {"file": None, "paths": ["log", STDOUT], "points": 2},
        {"file": None, "paths": ["log"], "points": 1},
        {"file": None, "paths": ["log"], "since_ns": START, "points": None},
    ],
    "files": [{"path": "images"}, {"path": "none"}],
    "histograms": [{"path": "h"}, {"path": "none"}],
    "last": [{"path": path} for path in ("loss", "log", "h", "images", "lr", "none")],
}


def test_every_read_of_a_run_equals_that_of_the_store(here) -> None:
    first = journal()
    first.op("file_point", path="images", file=LONG, step=0.0)
    second = JournalBuilder("two", rank=0, attempt=1, positions={first.writer: first.offset})
    second.t = first.t + 10**9
    second.row({"loss": 2.0}, 280.0).op("state", state="failed", error={"type": "E"})
    here.put("run0", first, second)
    catalog, mine = RemoteCatalog(Connection(here.url, here.admin)), reader(here)
    methods = {name for name in vars(Reader) if not name.startswith("_")}
    properties = {name for name in methods if isinstance(vars(Reader)[name], property)}
    assert methods - properties == set(EVERY)
    there = catalog.view(FIRST, "run0")
    for name in properties - {"contents", "now_ns"}:
        assert getattr(there, name) == getattr(mine, name), name
    (file,) = (one.file for one in mine.journals() if one.writer == first.writer)
    for name, calls in EVERY.items():
        for call in calls:
            arguments = {**call, "file": file} if "file" in call else call
            one = getattr(mine, name)(**arguments)
            # One that was asked for nothing before, one that knows all attributes already.
            for view in (catalog.view(FIRST, "run0"), there):
                other = getattr(view, name)(**arguments)
                assert type(other) is type(one) or name == "many_points", (name, call)
                if isinstance(one, list):
                    assert list(map(type, other)) == list(map(type, one)), (name, call)
                is_plain = name == "many_points"
                assert same(*map(dict, (one, other))) if is_plain else same(one, other), call
            if "file" not in call and "limit" not in call:  # by position, which no type checks
                other = getattr(there, name)(*call.values())
                assert name == "many_points" or same(one, other), (name, call)
        there.attributes()
    catalog.close()


def test_unchanged_run_is_not_sent_again(here) -> None:
    here.now_ns = START + 10**9
    here.put("run0", made := journal())
    with here.client() as asks:
        first = asks.told("overview", **RUN)
        again = asks.told("overview", **RUN, seen=first.seen)
        assert (again.unchanged, again.answer) == (True, UNSET)
        plain = asks.post("read/overview", json={**RUN, "seen": first.seen})
        assert plain.json() == {"unchanged": True}
        made.assign(lr=0.2)
        here.put("run0", made)
        second = asks.told("overview", **RUN, seen=first.seen)
        assert not second.unchanged
        here.now_ns += 10**12  # nothing is written, and yet the run is no longer running
        later = asks.told("overview", **RUN, seen=second.seen)
        assert later.answer.state == "crashed"
        assert asks.told("ranks", **RUN).seen == ""  # what changes with time alone


ODD_BODIES = [
    *(b"", b"null", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"project": "team/x"}'),
    b'{"nothing": ' * 50_000,
    *(
        b'{"project": "team/x", "run": "run0", %s}' % more
        for more in (b'"nothing": 1', b'"seen": 3', b'"next": 1', b'"path": "loss", "path": {}')
    ),
    b'{"project": "team/x", "run": "run0", "path": "' + b"x" * 5000 + b'"}',
]
INVALID: list[tuple[str, dict[str, Any]]] = [
    ("curve", {"path": "loss"}),
    ("curve", {"path": "loss", "points": 1}),
    ("curve", {"path": "loss", "points": 10, "attempt": -1}),
    ("curve", {"path": "loss", "points": 10, "attempt": "first"}),
    ("texts", {"path": "log", "next": str(2**70)}),
    ("drawing", {"path": "loss", "look": {"window": "nan"}}),
    ("drawing", {"path": "loss", "look": {"points": 999_999_999}}),
    ("points", {"paths": ["loss"], "limit": (1 << 24) + 1}),
    ("points", {"paths": ["loss"] * 1001}),
    ("points", {"paths": ["loss"], "next": "x" * (1 << 16)}),
    ("log", {"tail": 1_000_000}),
    ("attribute", {}),
]


def test_invalid_questions_are_refused_with_a_hint(here) -> None:
    here.put("run0", journal())
    with here.client() as asks, here.client("") as nobody:
        for verb, arguments in INVALID:
            assert asks.refused(verb, **RUN, **arguments)[0] == 422, (verb, arguments)
            assert nobody.refused(verb, **RUN, **arguments) == (401, "token-needed")
        for body in ODD_BODIES:
            answer = asks.post("read/attribute", content=body)
            assert (answer.status_code, answer.json()["error"]) == (422, "invalid"), body[:80]
            assert nobody.post("read/attribute", content=body).status_code == 401, body[:80]
        # Texts that no database can hold show nothing.
        assert asks.read("attribute", **RUN, path="a\u0000b") is None
        body = b'{"project": "team/x", "run": "run0", "paths": ["a\\u0000b", "\\ud800"]}'
        assert asks.post("read/some", content=body).status_code in (200, 422)
        assert asks.ask("overview", project="team/x", run="ru\0n").status_code in (404, 422)
        assert asks.ask("table", id="a\u0000b").status_code in (200, 422)
        assert asks.refused("overview", project="team/x", run="run9") == (404, "not-found")
    # Nothing is said of the other arguments where the project may not be seen.
    here.put("run1", journal(), project="team/y")
    with here.client(here.reader("ada", "team/x")) as asks:
        hidden, missing = (
            asks.ask("overview", project=project, run="run1").json()
            for project in ("team/y", "team/z")
        )
        assert {**hidden, "hint": hidden["hint"].replace("team/y", "team/z")} == missing
        for more in ({}, {"points": -1}, {"none": 1}):
            answer = asks.ask("curve", project="team/y", run="run1", **more)
            assert answer.json() == hidden


def test_records_of_a_stranger_open_no_file_and_no_process_of_the_server(here, tmp_path) -> None:
    (tmp_path / "secret").write_text("never to be told")
    ref = (tmp_path / "secret").as_uri()
    made = JournalBuilder()
    made.op("file", path="note", file={"ref": ref, "name": "secret"})
    made.op("file_point", path="notes", file={"ref": ref, "name": "secret"}, step=0.0)
    here.put("run0", made)
    with here.client() as asks:
        assert asks.read("attribute", **RUN, path="note").value["ref"] == ref
        for verb, path in (("attributes", {}), ("files", {"path": "notes"})):
            answer = asks.post(f"read/{verb}", json={**RUN, **path})
            assert ref in answer.text
            assert "never" not in answer.text
        # A header that names this very host and boot.
        facts = process_facts() | {"pid": 2**22 + 1}
        here.put("run1", journal(**facts))
        here.now_ns = START + 10**9
        assert asks.read("overview", project=FIRST, run="run1").state == "running"
        here.now_ns = START + 10**15
        told = asks.read("overview", project=FIRST, run="run1")
        assert (told.state, told.crash.reason) == ("crashed", "heartbeat lost")


def test_answers_are_of_bounded_length(here, monkeypatch) -> None:
    """The next one goes on; a place to go on that cannot be is refused, or begins anew."""
    monkeypatch.setattr(routes, "MAX_POINTS", 400)
    here.put("run0", journal(), journal("two"))
    made = JournalBuilder()
    made.texts("log", *[[float(at), "x" * 100] for at in range(300)])
    here.put("texts", made)
    paths = ["loss", "none", "epoch"]
    with here.client() as asks:
        assert in_parts(asks, paths=paths) == [
            [("loss", True, 400)],
            [("loss", False, 200), ("none", True, 0), ("epoch", True, 199)],
            [("epoch", False, 400)],
            [("epoch", False, 1)],
        ]
        monkeypatch.setattr(routes, "MAX_POINTS", 300)
        assert in_parts(asks, paths=[*paths, "nothing"]) == [
            *([("loss", begins, 300)] for begins in (True, False)),
            [("none", True, 0), ("epoch", True, 299)],
            [("epoch", False, 300)],
            [("epoch", False, 1), ("nothing", True, 0)],
        ]
        assert in_parts(asks, paths=["nothing"] * 3) == [[("nothing", True, 0)]]

        # A series over what a server reads at once, as a whole and its last points.
        monkeypatch.setattr(routes, "MAX_POINTS", 64)
        monkeypatch.setattr(routes, "_MAX_READ_POINTS", 200)
        monkeypatch.setattr(run, "_MAX_LIMIT", 200)
        asked = {**RUN, "paths": ["loss"]}
        assert [len(part) for part in in_parts(asks, paths=["loss"], limit=201)] == [1] * 4
        assert in_parts(asks, paths=["loss"], limit=60) == [[("loss", True, 60)]]
        first = asks.told("points", **asked)
        assert len(first.answer[0].points) == 64
        place = json.loads(first.next)
        assert place[:3] == ["team/x", "run0", "loss"]
        (step, done, hidden) = place[3]
        wrong_numbers = ([step, 1e9, hidden], [step, -1, hidden])
        for wrong in ([step, done], ["nan", done, hidden], *wrong_numbers, [step, done, "x"], "x"):
            refused = asks.refused("points", **asked, next=json.dumps([*place[:3], wrong]))
            assert refused[0] == 422, wrong
        changed = json.dumps([*place[:3], [step, done, hidden + 1]])
        for odd in (changed, json.dumps([*place[:2], "none", place[3]])):
            (anew,) = asks.read("points", **asked, next=odd)
            assert anew.begins
            assert same(anew.points, first.answer[0].points)

        monkeypatch.setattr("seamark.server.answering.MAX_ANSWER_BYTES", 1000)
        texts, following, log = [], "", {"project": FIRST, "run": "texts", "path": "log"}
        while following is not None:
            page = asks.told("texts", **log, next=following)
            assert 0 < len(page.answer) < 200
            texts, following = texts + page.answer, page.next
        assert texts == reader(here, "texts").texts("log")
        page = asks.told("texts", **log, next="300")
        assert (page.answer, page.next) == ([], None)
        for wrong in ("x", "-1", "1.5", '"1"', "[1]", "1" * 30):
            assert asks.refused("texts", **log, next=wrong)[0] == 422, wrong
    whole = reader(here).points("loss")
    assert len(whole) == 600
    with contextlib.closing(RemoteCatalog(Connection(here.url, here.admin))) as catalog:
        there = catalog.view(FIRST, "run0")
        assert same(there.points("loss"), whole)
        assert same(there.points("loss", limit=150), whole[-150:])
        assert same(there.points("loss", "all", limit=500), whole[-500:])
        assert same(there.many_points(["loss", "epoch"])["loss"], whole)
        assert len(there.points("nothing")) == 0


def test_answer_is_of_one_moment_while_a_run_changes(here) -> None:
    journal = JournalBuilder("j").op("state", state="running")
    here.put("r", journal)
    done = threading.Event()

    def change() -> None:
        for number in range(150):
            error = {"error": {"type": "E", "message": str(number)}}
            facts = {"state": "running"} if number % 2 else {"state": "failed", **error}
            here.put("r", journal.op("state", **facts))
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    seen = set()
    with here.client() as asks:
        while not done.is_set():
            found = asks.read("overview", project="team/x", run="r")
            assert bool(found.reason) == (found.state == "failed")
            seen.add(found.state)
    thread.join()
    assert seen == {"crashed", "failed"}  # nobody writes it

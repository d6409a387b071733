"""One run over HTTP is what the store's own reader says of it."""

from __future__ import annotations

import gzip
import json
import math
import threading

import pytest

pytest.importorskip("fastapi")

import zstandard
from journal_builder import START, JournalBuilder

from seamark.reading import wire
from seamark.reading.curves import Look
from seamark.remote.http import run
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.server.routes import reads as routes
from seamark.store.read.run import RunReader

FIRST = "team/x"
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
    made.histograms("h", [0.0, [[0, 1, 2], [3, 4.5]]])
    return made


def reader(here, run: str = "run0", project: str = FIRST) -> RunReader:
    return RunReader(
        here.server.store,
        project,
        run,
        lambda name: here.given.source(project, run, name),
        now_ns=lambda: here.now_ns,
    )


def same(one, other) -> bool:
    return wire.dumps(one) == wire.dumps(other)


def test_every_read_is_what_the_store_says(here) -> None:
    """Nothing is computed twice, and nothing is lost on the way."""
    here.put("run0", journal())
    at, read = f"runs/{FIRST}/run0", reader(here)
    with here.client() as asks:
        expected = {
            "state": read.state,
            "reason": read.reason,
            "failed": read.has_failed(),
            "crash": read.crash(),
            "troubles": read.troubles(),
        }
        told = asks.read(f"{at}/overview")
        assert same({key: told[key] for key in expected}, expected)
        assert same(asks.read(f"{at}/attributes")["attributes"], read.attributes())
        assert same(
            asks.read(f"{at}/attributes", namespace="sys")["attributes"], read.attributes("sys")
        )
        assert same(asks.read(f"{at}/attribute", path="big")["attribute"], read.attribute("big"))
        assert asks.read(f"{at}/attribute", path="big")["attribute"].value == 2**63
        assert asks.read(f"{at}/attribute", path="none")["attribute"] is None
        some = ["when", "lr", "none", "sys/state"]
        assert same(asks.read(f"{at}/attributes", {"paths": some})["attributes"], read.some(some))
        assert asks.read(f"{at}/has", path="sys")["has"] is True
        assert asks.read(f"{at}/families")["families"] == read.families()
        assert same(asks.read(f"{at}/writers")["journals"], read.journals())
        assert same(asks.read(f"{at}/ranks")["ranks"], read.ranks())
        assert same(asks.read(f"{at}/points", path="loss")["points"]["loss"], read.points("loss"))
        paths = ["loss", "epoch", "none"]
        many = asks.read(f"{at}/points", {"paths": paths, "limit": 10})
        assert same(many["points"], dict(read.many_points(paths, limit=10)))
        assert same(
            asks.read(f"{at}/curve", path="loss", points=50)["curve"], read.curve("loss", 50)
        )
        for look in (
            {"x": "epoch"},
            {"window": 20.0},
            {"log_x": True},
            {"x": "relative"},
            {"x": "order", "low": 20.0, "high": 90.5},
            {"half_life": 3.0, "width": 4.0},
        ):
            drawn = asks.read(f"{at}/drawing", path="loss", points=50, **look)["drawing"]
            assert same(drawn, read.drawing("loss", Look(50, **look)))
        assert same(asks.read(f"{at}/texts", path="log")["points"], read.texts("log"))
        assert same(asks.read(f"{at}/histograms", path="h")["points"], read.histograms("h"))
        assert same(asks.read(f"{at}/last", path="h")["last"], read.last("h"))
        assert same(asks.read(f"{at}/last", path="log")["last"], read.last("log"))
        (info,) = read.journals()
        body = {"file": info.file, "paths": ["monitoring/x/stdout"], "lines": 1}
        begin = asks.read(f"{at}/text-begin", body)["begin"]
        assert begin == read.text_begin(info.file, ["monitoring/x/stdout"], lines=1)
        page = asks.read(f"{at}/text-page", {**body, "begin": begin} | {"lines": None})["page"]
        assert page == read.text_page(info.file, ["monitoring/x/stdout"], begin)


def test_points_come_in_pages(here, monkeypatch) -> None:
    """Whoever is given fewer than there are asks for the rest, also among several paths."""
    monkeypatch.setattr("seamark.server.routes.reads.MOST_POINTS", 100)
    here.put("run0", journal())
    at, whole = f"runs/{FIRST}/run0/points", reader(here).points("loss")
    with here.client() as asks:
        got, steps = 0, []
        while True:
            page = asks.read(at, {"paths": ["loss"], "offset": got})
            steps += page["points"]["loss"].step.tolist()
            got = len(steps)
            if got >= page["total"]["loss"]:
                break
        assert steps == whole.step.tolist()
        first = asks.read(at, {"paths": ["loss", "epoch"]})
        assert list(first["points"]) == ["loss"]


def test_lists_stop_where_an_answer_is_full(here, monkeypatch) -> None:
    """No answer grows with the run; total says how much there is."""
    monkeypatch.setattr("seamark.server.answering.MOST_BYTES", 1000)
    made = JournalBuilder()
    made.texts("log", *[[float(at), "x" * 100] for at in range(300)])
    here.put("run0", made)
    with here.client() as asks:
        texts, total = [], 1
        while len(texts) < total:
            page = asks.read(f"runs/{FIRST}/run0/texts", path="log", offset=len(texts))
            assert 0 < len(page["points"]) < 200
            texts, total = texts + page["points"], page["total"]
        assert texts == reader(here).texts("log")


def test_an_unchanged_run_is_304(here) -> None:
    """A poll costs one row; whatever changes of the run is a new answer."""
    here.now_ns = START + 10**9
    here.put("run0", made := journal())
    at = f"runs/{FIRST}/run0/overview"
    with here.client() as asks:
        first = asks.get(at)
        known = {"If-None-Match": first.headers["etag"]}
        again = asks.get(at, headers=known)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        made.assign(lr=0.2)
        here.put("run0", made)
        assert asks.get(at, headers=known).status_code == 200
        known = {"If-None-Match": asks.get(at).headers["etag"]}
        here.now_ns += 10**12  # nothing is written, and yet the run is no longer running
        later = asks.get(at, headers=known)
        assert later.status_code == 200
        assert wire.loads(later.content)["state"] == "crashed"


def test_arrays_can_be_read_by_people(here) -> None:
    """The same numbers, as a list."""
    here.put("run0", journal())
    with here.client() as asks:
        told = asks.get(f"runs/{FIRST}/run0/points", params={"path": "loss", "arrays": "json"})
        points = told.json()["points"]["loss"]
        assert points["value"]["v"][6:9] == [1 / 7, "nan", "inf"]
        assert same(wire.loads(told.content)["points"]["loss"], reader(here).points("loss"))


def test_long_answers_are_packed_as_the_client_can_read_them(here) -> None:
    """And never in another way."""
    here.put("run0", journal())
    at = f"runs/{FIRST}/run0/attributes"
    with here.client() as asks:
        for packing in ("zstd", "gzip", "identity", "br", "zstd;q=0"):
            with asks.stream("GET", at, headers={"Accept-Encoding": packing}) as answer:
                raw = b"".join(answer.iter_raw())
            said = answer.headers.get("content-encoding", "")
            assert said == {"zstd": "zstd", "gzip": "gzip"}.get(packing, ""), packing
            if said == "zstd":
                raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
            elif said == "gzip":
                raw = gzip.decompress(raw)
            assert json.loads(raw)["attributes"], packing
            assert answer.headers["vary"] == "Accept-Encoding", packing


def test_only_who_may_read_a_project_learns_of_its_runs(here) -> None:
    """A project that may not be seen answers as one that is not there, whatever is asked."""
    here.put("run0", journal())
    here.put("run1", journal(), project="team/y")
    token = here.reader("ada", "team/x")
    with here.client(token) as asks:
        assert asks.read("runs/team/x/run0/overview")["run"] == "run0"
        hidden, missing = (
            asks.get(f"runs/{project}/run1/overview").json() for project in ("team/y", "team/z")
        )
        assert {**hidden, "hint": hidden["hint"].replace("team/y", "team/z")} == missing
        assert asks.refused("runs/team/x/run9/overview") == (404, "not-found")
    with here.client("") as asks:
        assert asks.refused("runs/team/x/run0/overview") == (401, "token-needed")


def test_what_cannot_be_asked_is_refused_with_a_hint(here) -> None:
    """4xx, never 500."""
    here.put("run0", journal())
    with here.client() as asks:
        for what in (
            "curve?path=loss&points=1",
            "curve?path=loss&points=999999999",
            "curve?path=loss&attempt=-1",
            "drawing?path=loss&window=nan",
            "drawing?path=loss&window=-1",
            "points?path=loss&limit=0",
            "texts?path=log&limit=1000000",
            "attribute",
            "text-page",
        ):
            status, _ = asks.refused(f"runs/{FIRST}/run0/{what}")
            assert status in (404, 405, 422), what


def test_paths_that_no_database_can_hold_show_nothing(here) -> None:
    """A NUL in a path is no error of the server."""
    here.put("run0", journal())
    with here.client() as asks:
        assert asks.read(f"runs/{FIRST}/run0/attribute", path="a\u0000b")["attribute"] is None
        answer = asks.post(
            f"runs/{FIRST}/run0/attributes",
            content=b'{"paths": ["a\\u0000b", "\\ud800"]}',
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in (200, 422), answer.text
        # Where nothing looks at a text before the database does.
        assert asks.get("runs/team/x/ru%00n/overview").status_code in (404, 422)
        assert asks.get("runs", params={"id": "a\u0000b"}).status_code in (200, 422)


def test_a_record_of_a_stranger_opens_nothing(here, tmp_path) -> None:
    """What refers to a file of the server is shown as it was recorded."""
    (tmp_path / "secret").write_text("never to be told")
    ref = (tmp_path / "secret").as_uri()
    made = JournalBuilder()
    made.op("file", path="note", file={"ref": ref, "name": "secret"})
    made.op("file_point", path="notes", file={"ref": ref, "name": "secret"}, step=0.0)
    here.put("run0", made)
    with here.client() as asks:
        shown = asks.read(f"runs/{FIRST}/run0/attribute", path="note")["attribute"]
        assert shown.value["ref"] == ref
        for what in ("attributes", "files?path=notes", "last?path=notes"):
            answer = asks.get(f"runs/{FIRST}/run0/{what}")
            assert ref in answer.text
            assert "never" not in answer.text


def test_no_process_of_the_server_stands_for_one_of_a_run(here) -> None:
    """A header that names this very host and boot is no reason to look at its processes."""
    from seamark.process.liveness import process_facts

    facts = process_facts() | {"pid": 2**22 + 1}
    here.put("run0", journal(**facts))
    here.now_ns = START + 10**9
    with here.client() as asks:
        assert asks.read(f"runs/{FIRST}/run0/overview")["state"] == "running"
        here.now_ns = START + 10**15
        told = asks.read(f"runs/{FIRST}/run0/overview")
        assert (told["state"], told["crash"].reason) == ("crashed", "heartbeat lost")


def test_a_series_of_any_length_is_read_in_parts(here, monkeypatch) -> None:
    """Also one over what a server reads at once, as a whole and its last points."""
    monkeypatch.setattr(routes, "MOST_POINTS", 64)
    monkeypatch.setattr(routes, "_MOST_READ", 200)
    monkeypatch.setattr(run, "_MOST_LAST", 200)
    here.put("run0", journal(), journal("two"))
    at, whole = f"runs/{FIRST}/run0", reader(here).points("loss")
    with here.client() as asks:
        for limit in ({}, {"limit": 201}):
            answer = asks.refused(f"{at}/points", path="loss", **limit)
            assert answer == (413, "too-many-points")
        assert len(asks.read(f"{at}/points", path="loss", limit=60)["points"]["loss"]) == 60
        assert asks.refused(f"{at}/points-part", path="loss", after="1:2")[0] == 422
        assert asks.refused(f"{at}/points-part", path="loss", after="nan:1:1")[0] == 422
        first = asks.read(f"{at}/points-part", path="loss")
        assert len(first["points"]) == 64
        changed = first["next"].rpartition(":")[0] + ":1"
        anew = asks.read(f"{at}/points-part", path="loss", after=changed)
        assert anew == {"points": None, "next": None}
    catalog = RemoteCatalog(Connection(here.url, here.admin))
    there = catalog.view(FIRST, "run0")
    assert len(whole) == 600
    assert same(there.points("loss"), whole)
    assert same(there.points("loss", limit=150), whole[-150:])
    assert same(there.points("loss", "all", limit=500), whole[-500:])
    assert same(there.many_points(["loss", "epoch"])["loss"], whole)
    assert len(there.points("nothing")) == 0
    catalog.close()


def test_an_answer_is_of_one_moment_while_a_run_changes(here) -> None:
    """A run that fails again and again never shows a state without its reason."""
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
            found = asks.read("runs/team/x/r/overview")
            assert bool(found["reason"]) == (found["state"] == "failed")
            seen.add(found["state"])
    thread.join()
    assert seen == {"crashed", "failed"}  # nobody writes it

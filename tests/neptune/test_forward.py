"""Runs on their way to what speaks Neptune's protocol, which stands here in memory."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from command import app

import seamark
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.neptune.forward.client import Client, Seen
from seamark.neptune.forward.remote import open_remote
from seamark.neptune.forward.run import ForwardedRun, Locks
from seamark.remote.protocol import Busy, Missing, Purged, RunKey, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable


PLACE = "neptune://team/digits"
KINDS = {
    "assignFloat": "float",
    "assignInt": "int",
    "assignBool": "bool",
    "assignString": "string",
    "assignDatetime": "datetime",
    "logFloats": "floatSeries",
    "logStrings": "stringSeries",
    "logImages": "imageSeries",
    "insertStrings": "stringSet",
}


class Place:
    """One run as the protocol has it; a request is done as a whole, or not at all.

    Attributes:
        held: Kind and value by path; of a series all its points, of a set its members.
        fails: Asked before and after each request; True loses it, or its answer.
        torn: Whether half of what a lost request asks for is done.
    """

    def __init__(self, fails: Callable[[], bool] = lambda: False, *, torn: bool = False) -> None:
        self.held: dict[str, tuple[str, Any]] = {}
        self.fails, self.torn = fails, torn
        self.files: Counter[tuple[str, str]] = Counter()
        self.gone = False

    def create(self, custom_id: str) -> str:
        return f"id of {custom_id}"

    def ask(self, verb: str, container: str) -> None:
        if self.gone:
            raise Purged(container)

    def attributes(self, container: str) -> dict[str, Seen]:
        found = {}
        for path, (kind, value) in self.held.items():
            last = value[-1][0] if kind.endswith("Series") and value else None
            found[path] = Seen(kind, last, value if kind in ("int", "float", "string") else None)
        return found

    def tail(self, container: str, path: str, kind: str, count: int) -> list[Any]:
        return list(self.held[path][1][-count:])

    def execute(self, container: str, operations: list[dict[str, Any]]) -> list[str]:
        lost = self.fails()
        done = operations[: len(operations) // 2 if self.torn else 0] if lost else operations
        for one in done:
            (verb,) = one.keys() - {"path"}
            self.do(one["path"], verb, one[verb])
        if lost or self.fails():
            msg = "no answer"
            raise Unreachable(msg)
        return []

    def do(self, path: str, verb: str, given: dict[str, Any]) -> None:
        if verb == "deleteAttribute":
            del self.held[path]
            return
        if verb.startswith("clear"):
            self.held[path] = (self.held[path][0], [])
            return
        kind = KINDS[verb]
        inside = [each for each in self.held if each.startswith(f"{path}/")]
        above = [each for each in self.held if path.startswith(f"{each}/")]
        assert not inside, f"{path} is a namespace"
        assert not above, f"{path} is below a value"
        held = self.held.setdefault(path, (kind, [] if "Series" in kind or "Set" in kind else None))
        assert held[0] == kind, f"{path} holds {held[0]}, not {kind}"
        if "entries" in given:
            assert given["entries"], f"{path}: nothing to add"
            for point in given["entries"]:
                place = point["step"], point["timestampMilliseconds"], point["value"]
                assert "Floats" not in verb or math.isfinite(point["value"])
                held[1].append(place)
        elif "values" in given:
            held[1].extend(given["values"])
        else:
            value = given.get("value", given.get("valueMilliseconds"))
            assert kind != "int" or -(1 << 31) <= value < 1 << 31
            self.held[path] = (kind, value)

    def upload(self, container: str, path: str, name: str, ext: str, source: str) -> list[str]:
        self.held[path] = ("file", Path(source).read_text())
        self.files[path, ext] += 1
        return []

    def points(self, path: str) -> list[tuple[float, Any]]:
        kind, found = self.held[path]
        assert kind.endswith("Series")
        return [(step, value) for step, _, value in found]

    def value(self, path: str) -> Any:
        return self.held[path][1]


@pytest.fixture
def forwarded(tmp_path):
    """Return what makes the one that sends a run, as a new process would."""

    def make(place, folder):
        client: Any = place
        return ForwardedRun(client, PLACE, folder, Locks(PLACE), os.getpid())

    return make


def send_all(run, folder):
    """Send a run as it lies there, as often as it takes."""
    for journal in sorted(folder.journals(), key=lambda one: one.path.stat().st_mtime_ns):
        size = journal.path.stat().st_size
        while run.send(journal.path.name, size) < size:
            pass
    while run.send_file() >= 0:
        pass
    run.note(last=True)


def test_what_the_protocol_holds_is_there_as_it_was(forwarded):
    """Values, points and steps, tags, texts and files arrive; sent again, nothing changes."""
    with seamark.init_run("demo", name="hello", tags=["a", "b"]) as run:
        run["lr"] = 1
        run["lr"] = 0.5
        run["ok"] = True
        for step in range(50):
            run.log_metrics({"train/loss": 1 / (step + 1)}, step=step)
        run["text"].append("halfway", step=0.5)
        run["text"].append("done", step=7)
        run["moved"] = 1
        del run["moved"]
        run["notes"].upload(seamark.types.File.from_content("hello", extension="txt"))
        run["twice"].extend([1.0, 2.0], steps=[3, 3])
    place = Place()
    for _ in range(2):
        send_all(forwarded(place, run.folder), run.folder)
        assert place.value("sys/name") == "hello"
        assert sorted(set(place.value("sys/tags"))) == ["a", "b"]
        assert place.held["lr"] == ("float", 0.5)
        assert place.value("ok") is True
        assert place.points("train/loss") == [(step, 1 / (step + 1)) for step in range(50)]
        assert place.points("text") == [(0.5, "halfway"), (7, "done")]
        assert place.points("twice") == [(3, 1.0), (3, 2.0)]
        assert "moved" not in place.held
        assert place.value("notes") == "hello"
        assert place.files["notes", "txt"] == 1


def test_what_the_protocol_cannot_hold_is_counted_on_the_run(forwarded):
    """Each kind is sent in another form or left out, and counted on the run of this disk."""
    with seamark.init_run("demo") as run:
        run["big"] = 1 << 40
        run["none"] = None
        run["list"] = [1, {"a": None}]
        run["source_code/arguments"] = []  # what comes unasked is sent and not told
        run["nan"] = math.nan
        run["labels"] = seamark.types.StringSet(["x", "y"])
        run["a"] = 1
        run["a/b"] = 2
        run["loss"].extend([1.0, math.nan, math.inf], steps=[0, 1, 2])
        run["weights"].append(seamark.types.Histogram([0, 1, 2], [3, 4]), step=0)
        run["gpu"].keep(seamark.Statistics())
        for _ in range(10):
            run["gpu"].append(1.5)
    place = Place()
    send_all(forwarded(place, run.folder), run.folder)
    assert place.value("big") == float(1 << 40)
    assert place.value("none") == "None"
    assert place.value("list") == '[1,{"a":null}]'
    assert place.value("nan") == "nan"
    assert place.value("labels") == "x, y"
    assert (place.value("a"), place.value("a_/b")) == (1, 2)
    assert place.points("loss") == [(0, 1.0)]
    lacking = {
        "histograms": 1,
        "large_integers": 1,
        "lists": 1,
        "not_finite": 2,
        "not_finite_values": 1,
        "nulls": 1,
        "renamed": 1,
        "sets": 1,
        "statistics": 1,
    }
    read = seamark.init_run("demo", with_id=run.id, mode="read-only")
    counted = read["monitoring/seamark/forward/team-digits"].fetch()
    assert counted == {"to": PLACE, **lacking}
    send_all(again := forwarded(place, run.folder), run.folder)
    assert again.unsupported() == (lacking, "")
    shown = CliRunner().invoke(app, ["show", run.id]).stdout
    assert "! not all of it has a form at neptune://team/digits; it is whole here" in shown
    assert "  2  points that are NaN or infinite: left out\n" in shown
    assert "  1  sets other than tags: sent as texts\n" in shown


@pytest.mark.parametrize("torn", [False, True])
def test_a_lost_request_or_answer_loses_and_doubles_nothing(forwarded, torn):
    """Whichever one is lost, before it is done, after or (of points) half, each is there once."""
    with seamark.init_run("demo") as run:
        for step in range(40):
            run.log_metrics({"loss": step / 7}, step=step)
            run["text"].append(f"line {step}", step=step)
            if step == 20:
                run["text"].clear()
        for step in range(0 if torn else 3):
            run["img"].append(seamark.types.File.from_content(b"\x89PNG", "png"), step=step)
    for lost in range(20):
        asked = iter(range(1000))
        place = Place(lambda asked=asked, lost=lost: next(asked) == lost, torn=torn)
        sender = forwarded(place, run.folder)
        while True:
            try:
                send_all(sender, run.folder)
                break
            except Unreachable:
                if lost % 4 < 2:  # its process is killed, and another one goes on
                    sender = forwarded(place, run.folder)
        assert place.points("loss") == [(step, step / 7) for step in range(40)], lost
        assert place.points("text") == [(step, f"line {step}") for step in range(21, 40)], lost
        assert torn or [step for step, _ in place.points("img")] == [0, 1, 2], lost
        if next(asked) <= lost:
            break
    else:
        pytest.fail("not every request was lost once")


def test_counts_are_noted_once_where_nobody_answers_later(forwarded):
    """No record is added to the run for each process that reaches no server."""
    with seamark.init_run("demo") as run:
        run["loss"].append(float("nan"), step=0)
    send_all(forwarded(Place(), run.folder), run.folder)
    before = list(run.folder.journals())
    sender = forwarded(Place(lambda: True), run.folder)
    with pytest.raises(Unreachable):
        sender.known()
    sender.note(last=True)
    assert list(run.folder.journals()) == before


def test_a_run_that_was_deleted_there_is_not_made_again(forwarded):
    """Whoever deletes it there means it; what is on this disk stays."""
    with seamark.init_run("demo") as run:
        run["a"] = 1
    place = Place()
    send_all(forwarded(place, run.folder), run.folder)
    place.gone = True
    with pytest.raises(Purged):
        send_all(forwarded(place, run.folder), run.folder)


def test_what_an_earlier_attempt_could_not_send_changes_nothing_newer(forwarded):
    """Its points come late, and its values not at all where a later attempt has given others."""
    place = Place()
    with seamark.init_run("demo", custom_run_id="one") as run:
        run["lr"] = 0.1
        run["first"] = True
        run["loss"].append(1.0, step=0)
    first = list(run.folder.journals())
    with seamark.init_run("demo", custom_run_id="one") as run:
        run["lr"] = 0.01
        run["loss"].append(0.5, step=1)
    second = next(one for one in run.folder.journals() if one not in first)
    sender = forwarded(place, run.folder)
    sender.send(second.path.name, second.path.stat().st_size)
    send_all(forwarded(place, run.folder), run.folder)
    assert place.value("lr") == 0.01
    assert place.value("first") is True
    assert sorted(place.points("loss")) == [(0, 1.0), (1, 0.5)]


def test_what_takes_the_place_of_something_else_there_is_put_there(forwarded):
    """A path that held a value, was freed and holds points then does so there; so do attempts."""
    with seamark.init_run("demo", custom_run_id="one") as run:
        run["x"] = 1
        run["was/a"] = 1
        del run["was"]
        run["was"] = 2
    place = Place()
    send_all(forwarded(place, run.folder), run.folder)
    with seamark.init_run("demo", custom_run_id="one") as run:
        del run["x"]
        run["x"].append(1.5, step=4)
    send_all(forwarded(place, run.folder), run.folder)
    assert place.points("x") == [(4, 1.5)]
    assert place.value("was") == 2
    assert not [path for path in place.held if path.startswith("was/")]


def test_the_file_of_the_last_attempt_stays(forwarded):
    """Whatever the journals are called."""
    for at in range(8):
        for text in ("first", "second"):
            with seamark.init_run("demo", custom_run_id=f"run {at}") as run:
                run["model"].upload(seamark.types.File.from_content(text, "txt"))
        place = Place()
        send_all(forwarded(place, run.folder), run.folder)
        assert place.value("model") == "second", at


def test_images_keep_their_order_with_what_empties_their_series(forwarded):
    """An image of before is not there afterwards, and each later one is there once."""
    with seamark.init_run("demo") as run:
        run["img"].append(seamark.types.File.from_content(b"one", "png"), step=0)
        run["img"].clear()
        run["img"].append(seamark.types.File.from_content(b"two", "png"), step=1)
        run["gone"].append(seamark.types.File.from_content(b"three", "png"), step=0)
        del run["gone"]
    place = Place()
    for _ in range(2):
        send_all(forwarded(place, run.folder), run.folder)
        assert [step for step, _ in place.points("img")] == [1]
        assert "gone" not in place.held


def test_what_another_process_has_sent_meanwhile_is_not_sent_again(forwarded):
    """One that was asked before, and sends only now, looks at what is there once more."""
    with seamark.init_run("demo") as run:
        for step in range(20):
            run.log_metrics({"loss": step / 7}, step=step)
    place, (journal,) = Place(), run.folder.journals()
    late, first = forwarded(place, run.folder), forwarded(place, run.folder)
    with JournalReader(journal.path) as reader:
        ends = [frame.end for frame in reader.frames()]
    first.send(journal.path.name, ends[len(ends) // 2])
    assert late.known()[journal.path.name] == ends[len(ends) // 2]
    send_all(first, run.folder)
    send_all(late, run.folder)
    assert place.points("loss") == [(step, step / 7) for step in range(20)]


def test_a_journal_that_is_sent_by_another_process_is_left_to_it(forwarded, tmp_path):
    """As long as that process lives; then it is sent from where the other one has stopped."""
    with seamark.init_run("demo") as run:
        run["a"] = 1
    (journal,) = run.folder.journals()
    script = f"""
from seamark.neptune.forward.run import Locks
assert Locks({PLACE!r}).take({journal.path.name!r})
print("taken", flush=True)
input()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    place = Place()
    try:
        assert other.stdout.readline() == "taken\n"
        sender = forwarded(place, run.folder)
        with pytest.raises(Busy, match="another process of this machine"):
            send_all(sender, run.folder)
    finally:
        other.communicate("\n")
    send_all(sender, run.folder)
    assert place.value("a") == 1


def test_a_helper_that_is_killed_is_started_again(tmp_path):
    """The request under way fails, and a later one is answered; a fork begins one of its own."""
    told = json.dumps({"api_address": "http://127.0.0.1:1"}).encode()
    first, second = (open_remote(PLACE, base64.b64encode(told).decode()) for _ in range(2))
    key = RunKey("demo", "one")
    for one in (first, second):
        one.meet(key, RunFolder(tmp_path, "demo", "one"))
    try:
        assert first.journals(key) == {}  # nobody is asked where it was never sent
        os.kill(first.helper.process.pid, signal.SIGKILL)
        with pytest.raises(Unreachable, match="failed"):
            first.journals(key)
        assert first.journals(key) == {}
        first.close()
        first.close()  # does not count twice
        process = second.helper.process
        assert second.files_left(key) == {}
        forked = os.fork()
        if not forked:
            own = open_remote(PLACE, base64.b64encode(told).decode())
            mixed = second.helper.process is not None  # else it asks over the parent's channels
            os._exit(own.helper is first.helper or own.helper.process is not None or mixed)
        assert os.waitpid(forked, 0)[1] == 0
        assert second.helper.process is process
        assert process.poll() is None
    finally:
        process = second.helper.process
        second.close()
    assert process.returncode == 0


def test_folders_with_the_same_names_are_kept_apart(tmp_path):
    """Two roots may hold a run of one project and id, and one process may send both."""
    told = json.dumps({"api_address": "http://127.0.0.1:1"}).encode()
    key, remotes = RunKey("demo", "one"), []
    for size in (3, 5):
        folder = RunFolder(tmp_path / str(size), "demo", "one")
        folder.blobs_dir.mkdir(parents=True)
        Path(folder.blobs_dir, "ab" * 32).write_bytes(b"x" * size)
        remotes.append(open_remote(PLACE, base64.b64encode(told).decode()))
        remotes[-1].meet(key, folder)
    try:
        assert [list(one.files_left(key).values()) for one in remotes] == [[3], [5]]
    finally:
        for one in remotes:
            one.close()


def test_a_helper_ends_although_a_fork_goes_on(tmp_path):
    """As workers of a DataLoader, which are forked while a run is sent."""
    told = json.dumps({"api_address": "http://127.0.0.1:1"}).encode()
    remote, key = open_remote(PLACE, base64.b64encode(told).decode()), RunKey("demo", "one")
    remote.meet(key, RunFolder(tmp_path, "demo", "one"))
    assert remote.journals(key) == {}
    process, forked = remote.helper.process, os.fork()
    if not forked:
        signal.pause()
        os._exit(0)
    try:
        remote.close()
        assert process.wait(30) == 0
    finally:
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)


class _Api:
    """Answers of the package, as it gives them."""

    def __init__(self, count: int = 0, most: int = 1000) -> None:
        self.count, self.most = count, most

    def getFloatSeriesValues(self, limit: int, offset: int, **_: Any) -> Any:  # noqa: N802
        end = min(self.count, offset + min(limit, self.most))
        points = [
            SimpleNamespace(step=n, timestampMillis=n, value=n / 2) for n in range(offset, end)
        ]
        found = SimpleNamespace(totalItemCount=self.count, values=points)
        return SimpleNamespace(response=lambda: SimpleNamespace(result=found))


def test_all_last_points_are_asked_for(monkeypatch):
    """Though a server gives 1000 at once, those that are there already are all known."""
    expired = SimpleNamespace(NeptuneAuthTokenExpired=KeyError)
    monkeypatch.setitem(sys.modules, "neptune.common.exceptions", expired)
    client = Client("team/digits", "")
    for count in (0, 7, 2600):
        api = SimpleNamespace(api=_Api(count))
        client.__dict__["_backend"] = SimpleNamespace(leaderboard_client=api)
        found = client.tail("one", "loss", "floatSeries", 2500)
        assert [step for step, _, _ in found] == list(range(max(0, count - 2500), count))


def test_a_server_without_the_project_has_not_deleted_a_run(monkeypatch):
    """A wrong address is no reason to send nothing of a run ever again."""

    class Gone(Exception):  # noqa: N818
        status_code = 404

    expired = SimpleNamespace(NeptuneAuthTokenExpired=KeyError)
    monkeypatch.setitem(sys.modules, "neptune.common.exceptions", expired)

    def backend(client):
        raise Gone

    monkeypatch.setattr(Client, "_backend", property(backend))
    for ask in (lambda one: one.create("x"), lambda one: one.ask("ping", "x")):
        with pytest.raises(Missing):
            ask(Client("team/digits", ""))

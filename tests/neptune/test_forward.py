"""Runs that are sent on to Neptune's protocol, here to a fake in memory."""

from __future__ import annotations

import base64
import io
import json
import math
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest
from click.testing import CliRunner
from command import app
from scripts import start_script

import seamark
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.neptune.forward.client import Client, RemoteAttribute
from seamark.neptune.forward.remote import open_remote
from seamark.neptune.forward.run import ForwardedRun, Locks
from seamark.remote.http.connection import Answer
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    Missing,
    Purged,
    Refused,
    RunKey,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import Callable


PLACE = "neptune://team/digits"
KINDS = {
    **{f"assign{name}": name.lower() for name in ("Float", "Int", "Bool", "String", "Datetime")},
    **{f"log{name}s": f"{name.lower()}Series" for name in ("Float", "String", "Image")},
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

    def attributes(self, container: str) -> dict[str, RemoteAttribute]:
        found = {}
        for path, (kind, value) in self.held.items():
            last = value[-1][0] if kind.endswith("Series") and value else None
            found[path] = RemoteAttribute(
                kind, last, value if kind in ("int", "float", "string") else None
            )
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

    def upload(self, container: str, path: str, name: str, ext: str, file: BinaryIO) -> list[str]:
        self.held[path] = ("file", file.read().decode())
        self.files[path, ext] += 1
        return []

    def points(self, path: str) -> list[tuple[float, Any]]:
        kind, found = self.held[path]
        assert kind.endswith("Series")
        return [(step, value) for step, _, value in found]

    def value(self, path: str) -> Any:
        return self.held[path][1]


def file(content, extension="txt"):
    return seamark.types.File.from_content(content, extension)


def sender_of(place, run):
    """Return what sends a run, as a new process would."""
    return ForwardedRun(place, PLACE, run.folder, Locks(PLACE))


def send_all(place, run, sender=None):
    """Send a run as it is on disk, as often as it takes; return what sent it."""
    sender = sender or sender_of(place, run)
    for journal in sorted(run.folder.journals(), key=lambda one: one.path.stat().st_mtime_ns):
        size = journal.path.stat().st_size
        while sender.send(journal.path.name, size) < size:
            pass
    sender.note(last=True)
    return sender


def name_and_size(run):
    (journal,) = run.folder.journals()
    return journal.path.name, journal.path.stat().st_size


def fail(error):
    def failing(*_):
        raise error

    return failing


def test_all_that_the_protocol_supports_arrives_once():
    """Values, points, tags, texts, images and files; sent again, nothing changes."""
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
        run["notes"].upload(file("hello"))
        run["twice"].extend([1.0, 2.0], steps=[3, 3])
        run["img"].append(file(b"one", "png"), step=0)
        run["img"].clear()
        run["img"].append(file(b"two", "png"), step=1)
        run["gone"].append(file(b"three", "png"), step=0)
        del run["gone"]
    place = Place()
    for _ in range(2):
        send_all(place, run)
        assert place.value("sys/name") == "hello"
        assert sorted(set(place.value("sys/tags"))) == ["a", "b"]
        assert place.held["lr"] == ("float", 0.5)
        assert place.value("ok") is True
        assert place.points("train/loss") == [(step, 1 / (step + 1)) for step in range(50)]
        assert place.points("text") == [(0.5, "halfway"), (7, "done")]
        assert place.points("twice") == [(3, 1.0), (3, 2.0)]
        assert [step for step, _ in place.points("img")] == [1]
        assert not place.held.keys() & {"moved", "gone"}
        assert (place.value("notes"), place.files["notes", "txt"]) == ("hello", 1)
    place.gone = True  # a run that was deleted there is not created again
    with pytest.raises(Purged):
        send_all(place, run)


def test_unsupported_values_are_counted_in_the_run():
    """Each kind is sent in another form or left out; the counts are recorded here, once."""
    with seamark.init_run("demo") as run:
        run["big"] = 1 << 40
        run["none"] = None
        run["list"] = [1, {"a": None}]
        run["source_code/arguments"] = []  # what is recorded by default is sent, but not counted
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
    send_all(place, run)
    wanted = {"big": float(1 << 40), "none": "None", "list": '[1,{"a":null}]', "nan": "nan"}
    wanted |= {"labels": "x, y", "a": 1, "a_/b": 2}
    assert {path: place.value(path) for path in wanted} == wanted
    assert place.points("loss") == [(0, 1.0)]
    once = ("histograms", "large_integers", "lists", "not_finite_values", "nulls", "renamed")
    lacking = {**dict.fromkeys((*once, "sets", "statistics"), 1), "not_finite": 2}
    read = seamark.init_run("demo", with_id=run.id, mode="read-only")
    counted = read["monitoring/seamark/forward/team-digits"].fetch()
    assert counted == {"to": PLACE, **lacking}
    assert send_all(place, run).unsupported() == (lacking, "")
    before = list(run.folder.journals())
    sender = sender_of(Place(lambda: True), run)
    with pytest.raises(Unreachable):
        sender.known()
    sender.note(last=True)
    assert list(run.folder.journals()) == before
    shown = CliRunner().invoke(app, ["show", run.id]).stdout
    assert (
        "! some data cannot be represented at neptune://team/digits; it is complete here" in shown
    )
    assert "  2  points that are NaN or infinite: left out\n" in shown
    assert "  1  sets other than tags: sent as texts\n" in shown


@pytest.mark.parametrize("torn", [False, True])
def test_a_lost_request_or_answer_loses_and_duplicates_nothing(torn):
    """Each in turn is lost: before it is done, after, or (of points) halfway."""
    with seamark.init_run("demo") as run:
        for step in range(40):
            run.log_metrics({"loss": step / 7}, step=step)
            run["text"].append(f"line {step}", step=step)
            if step == 20:
                run["text"].clear()
        for step in range(0 if torn else 3):
            run["img"].append(file(b"\x89PNG", "png"), step=step)
    for lost in range(20):
        asked = iter(range(1000))
        place = Place(lambda asked=asked, lost=lost: next(asked) == lost, torn=torn)
        sender = sender_of(place, run)
        while True:
            try:
                send_all(place, run, sender)
                break
            except Unreachable:
                if lost % 4 < 2:  # its process is killed, and another one continues
                    sender = sender_of(place, run)
        assert place.points("loss") == [(step, step / 7) for step in range(40)], lost
        assert place.points("text") == [(step, f"line {step}") for step in range(21, 40)], lost
        assert torn or [step for step, _ in place.points("img")] == [0, 1, 2], lost
        if next(asked) <= lost:
            break
    else:
        pytest.fail("not every request was lost once")


def test_late_data_of_an_earlier_attempt_changes_nothing_newer():
    """Its points come late; values and files only where a later attempt has given no others."""
    place = Place()
    with seamark.init_run("demo", custom_run_id="one") as run:
        run["lr"] = 0.1
        run["first"] = True
        run["loss"].append(1.0, step=0)
        run["model"].upload(file("first"))
        run["value"].upload(file("first"))
    (first,) = run.folder.journals()
    with seamark.init_run("demo", custom_run_id="one") as run:
        run["lr"] = 0.01
        run["loss"].append(0.5, step=1)
        run["model"].upload(file("second"))
        del run["value"]
        run["value"] = 2
    (second,) = [one for one in run.folder.journals() if one.path != first.path]
    sender = sender_of(place, run)
    for one in (second, first):
        assert sender.send(one.path.name, one.path.stat().st_size) == one.path.stat().st_size
    values = [place.value(path) for path in ("lr", "first", "model", "value")]
    assert values == [0.01, True, "second", 2]
    assert sorted(place.points("loss")) == [(0, 1.0), (1, 0.5)]
    assert sender.known()[first.path.name] == first.path.stat().st_size


def test_a_path_changes_its_kind_there_as_here():
    """In one attempt, and from one to the next; the file of the last attempt stays."""
    for at in range(4):  # names of journals, by which they might be sorted, are random
        given = {"project": "demo", "custom_run_id": f"run {at}"}
        with seamark.init_run(**given) as run:
            run["x"] = 1
            run["was/a"] = 1
            del run["was"]
            run["was"] = 2
            run["model"].upload(file("first"))
        place = Place()
        if at % 2:
            send_all(place, run)
        with seamark.init_run(**given) as run:
            del run["x"]
            run["x"].append(1.5, step=4)
            run["model"].upload(file("second"))
        send_all(place, run)
        assert place.points("x") == [(4, 1.5)], at
        assert (place.value("was"), place.value("model")) == (2, "second"), at
        assert not [path for path in place.held if path.startswith("was/")]


def test_a_file_whose_upload_failed_is_sent_by_the_next_process():
    """The journal counts as sent up to the record that names the file; no point comes twice."""
    with seamark.init_run("demo") as run:
        run["loss"].append(1.0, step=0)
        run["model"].upload(file("weights"))
        run["loss"].append(0.5, step=1)
    name, size = name_and_size(run)
    place = Place()
    upload, place.upload = place.upload, fail(Unreachable(PLACE))
    with pytest.raises(Unreachable):
        sender_of(place, run).send(name, size)
    place.upload = upload
    sender = sender_of(place, run)
    assert 0 < sender.known()[name] < size
    assert sender.send(name, size) == size
    assert sender.known()[name] == size
    assert place.value("model") == "weights"
    assert place.points("loss") == [(0, 1.0), (1, 0.5)]


def test_a_refused_file_delays_nothing_else():
    """It counts as missing; only a later process sends it again."""
    with seamark.init_run("demo") as run:
        run["model"].upload(file("weights"))
        run["loss"].append(0.5, step=1)
    name, size = name_and_size(run)
    place = Place()
    upload, tried = place.upload, []

    def refuse(container, path, *given):
        tried.append(path)
        msg = "the project is full"
        raise Refused(msg)

    place.upload = refuse
    sender = sender_of(place, run)
    for _ in range(3):
        assert sender.send(name, size) == size
    assert (tried, sender.held) == (["model"], "the project is full")
    assert place.points("loss") == [(1, 0.5)]
    assert sender.known()[name] < size
    place.upload = upload
    assert sender_of(place, run).send(name, size) == size
    assert place.value("model") == "weights"


def test_data_that_another_process_has_sent_is_not_sent_again():
    with seamark.init_run("demo") as run:
        for step in range(20):
            run.log_metrics({"loss": step / 7}, step=step)
    place, (journal,) = Place(), run.folder.journals()
    late, first = sender_of(place, run), sender_of(place, run)
    with JournalReader(journal.path) as reader:
        ends = [frame.end for frame in reader.frames()]
    first.send(journal.path.name, ends[len(ends) // 2])
    assert late.known()[journal.path.name] == ends[len(ends) // 2]
    send_all(place, run, first)
    send_all(place, run, late)
    assert place.points("loss") == [(step, step / 7) for step in range(20)]


def token_of_nobody():
    """Return an API token of a server that nobody reaches."""
    told = json.dumps({"api_address": "http://127.0.0.1:1"}).encode()
    return base64.b64encode(told).decode()


TAKES = """
import sys
from seamark.neptune.forward.run import Locks
Locks(sys.argv[1]).take(sys.argv[2])
print("taken", flush=True)
input()
"""


def test_a_journal_is_sent_by_one_remote_until_that_is_closed():
    """Other remotes and processes are refused; a process may live for days after its run."""
    uri = "neptune://team/left"
    with seamark.init_run("demo") as run:
        run["a"] = 1
    key, (name, size) = RunKey("demo", run.id), name_and_size(run)
    first, other = (open_remote(uri, token_of_nobody()) for _ in range(2))
    place: Any = Place()
    for remote in (first, other):
        remote.meet(key, run.folder)
        remote.meet(key, run.folder)
        remote._runs[key]._client = place
    first.send(key, name, 0, bytes(size))
    with pytest.raises(Busy, match="another remote of this process"):
        other.send(key, name, 0, bytes(size))
    forked = os.fork()
    if not forked:
        child = open_remote(uri, token_of_nobody())
        child.meet(key, run.folder)
        try:
            child._runs[key]._locks.take(name, child)
        except Busy as error:
            os._exit("another process" in str(error))
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 1
    first.close()
    with start_script(TAKES, uri, name) as process:
        assert process.stdout.readline() == "taken\n"
        with pytest.raises(Busy, match="another process of this machine"):
            other.send(key, name, 0, bytes(size))
        process.communicate("\n")
    assert other.send(key, name, 0, bytes(size)).offset == size
    assert place.value("a") == 1
    other.close()


def test_a_process_that_cannot_open_the_run_does_not_keep_others_from_sending_it():
    """For example a training with a wrong token, while the user calls `seamark sync`."""
    uri = "neptune://team/closed"
    with seamark.init_run("demo") as run:
        run["a"] = 1
    key, (name, size) = RunKey("demo", run.id), name_and_size(run)
    remote = open_remote(uri, token_of_nobody())
    remote.meet(key, run.folder)
    client: Any = Refusing()
    remote._runs[key]._client = client
    with pytest.raises(Unreachable):
        remote.send(key, name, 0, bytes(size))
    with start_script(TAKES, uri, name) as process:
        assert process.stdout.readline() == "taken\n"
        process.communicate("\n")
    remote.close()


class Refusing:
    def create(self, custom_id: str) -> str:
        raise Unreachable("refused")


def test_folders_of_two_roots_with_the_same_names_are_kept_apart(tmp_path):
    """Nothing is asked about a run that was never sent."""
    key, remote = RunKey("demo", "one"), open_remote(PLACE, token_of_nobody())
    remote.meet(key, RunFolder(tmp_path, "demo", "one"))
    assert remote.journals(key) == {}
    for root in ("first", "second"):
        with seamark.init_run("demo", custom_run_id="one", root=tmp_path / root) as run:
            run["root"] = root
        remote.meet(key, run.folder)
        place: Any = Place()
        remote._runs[key]._client = place
        name, size = name_and_size(run)
        assert remote.send(key, name, 0, bytes(size)).offset == size
        assert place.value("root") == root
    remote.close()
    remote.close()


class Answers:
    """A server that answers each request with the next of some answers, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), []

    def ask(self, method: str, path: str, **given: Any) -> Any:
        self.asked.append((method, path, given))
        if path.endswith("swagger.json"):
            return Answer(200, {}, json.dumps(DOCUMENTS[path.split("/")[2]]).encode())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(200, {}, b"" if answer is None else json.dumps(answer).encode())


def described(*verbs: str, place: str = "query") -> dict[str, Any]:
    names = ["X-Neptune-Api-Token"] if verbs[0] == "getClientConfig" else ["experimentId"]
    parameters = [{"name": one, "in": "header" if one.startswith("X-") else place} for one in names]
    where = "/{experimentId}" if place == "path" else ""
    return {
        f"/{verb}{where}": {"get": {"operationId": verb, "parameters": parameters}}
        for verb in verbs
    }


DOCUMENTS = {
    "backend": {"paths": described("getClientConfig", "exchangeApiToken")},
    "leaderboard": {
        "paths": described("getFloatSeriesValues", "ping", place="path")
        | described("fileAtomUpload", "fileAtomMultipartUploadStart")
        | described("fileAtomMultipartUploadPart", "fileAtomMultipartUploadFinish")
    },
}
SIGNED_IN = [{"multiPartUpload": {"maxSinglePartSize": 4, "minChunkSize": 3}}, {"accessToken": "x"}]


def client_of(*answers: Any) -> tuple[Client, Answers]:
    client, server = Client("team/digits", token_of_nobody()), Answers(*answers)
    client.__dict__["_connection"] = server
    return client, server


def refusal(status: int) -> Refused:
    error = Refused("no")
    error.status, error.said = status, {"title": "a limit"}
    return error


def test_all_last_points_are_asked_for():
    """A server gives at most 1000 points at once."""
    for count in (0, 7, 2600):
        client, _ = client_of()

        def ask(verb, container, count=count, *, attribute, limit, offset):
            end = min(count, offset + min(limit, 1000))
            points = [{"step": n, "timestampMillis": n, "value": n / 2} for n in range(offset, end)]
            return {"totalItemCount": count, "values": points}

        client.ask = ask
        found = client.tail("one", "loss", "floatSeries", 2500)
        assert [step for step, _, _ in found] == list(range(max(0, count - 2500), count))


def test_requests_follow_the_documents_of_the_server():
    """Address, place of each argument and tokens; an expired token is replaced once."""
    client, server = client_of(*SIGNED_IN, refusal(401), *SIGNED_IN, None)
    assert client.ask("ping", "a/b") is None
    asked = [(path, given.get("headers")) for _, path, given in server.asked]
    usual = {"X-Neptune-LegacyClient": "false"}
    token = {**usual, "X-Neptune-Api-Token": token_of_nobody()}
    access = {**usual, "Authorization": "Bearer x"}
    signs_in = [
        ("/api/backend/swagger.json", None),
        ("/api/leaderboard/swagger.json", None),
        ("/getClientConfig", token),
        ("/exchangeApiToken", token),
        ("/ping/a%2Fb", access),
    ]
    assert asked == signs_in * 2


def test_a_large_file_is_sent_in_parts():
    """Their size is that of the server; an error of a part ends the upload."""
    done: dict[str, Any] = {"errors": []}
    file = io.BytesIO(b"0123456")
    client, server = client_of(*SIGNED_IN, {"uploadId": "u", "errors": []}, *[done] * 4)
    assert client.upload("one", "model", "", "bin", file) == []
    ranges = [given["headers"].get("X-Range") for _, path, given in server.asked if "Part" in path]
    assert ranges == ["bytes=0-2/7", "bytes=3-5/7", "bytes=6-6/7"]
    bodies = [given["body"] for _, path, given in server.asked if path.endswith("UploadPart")]
    assert b"".join(bodies) == b"0123456"
    client, _ = client_of(*SIGNED_IN, {"errors": [{"errorDescription": "too large"}]})
    assert client.upload("one", "model", "", "bin", file) == ["too large"]
    client, server = client_of(*SIGNED_IN, {"errorDescription": "full"})
    assert client.upload("one", "model", "", "bin", io.BytesIO(b"0123")) == ["full"]
    assert server.asked[-1][2]["body"] == b"0123"
    # An upload that the server has forgotten is no deleted run: it is begun again.
    client, _ = client_of(*SIGNED_IN, {"uploadId": "u"}, refusal(404))
    with pytest.raises(Unreachable):
        client.upload("one", "model", "", "bin", file)


def test_refusals_become_errors_with_their_reason():
    """A run that is not there was deleted; a journal is set aside for no limit or offset."""
    for error, kind, words in [
        (refusal(404), Purged, "it does not exist"),
        (refusal(403), Refused, "may not write to team/digits"),
        (refusal(422), Refused, "refused: a limit"),
        (Gap("known", 5), Refused, "refused: known"),
        (Diverged("known", 5), Refused, "refused: known"),
    ]:
        client, _ = client_of(*SIGNED_IN, error)
        with pytest.raises(kind, match=words) as raised:
            client.ask("ping", "one")
        assert type(raised.value) is kind
    for ask in (lambda one: one.create("x"), lambda one: one.ask("ping", "x")):
        client, _ = client_of(refusal(404))  # a wrong address: the project is not there
        with pytest.raises(Missing):
            ask(client)


def test_text_of_a_server_controls_no_terminal():
    """Neither why it refuses a request, nor why an operation."""
    refused = refusal(422)
    refused.said["title"] = "\x1b[31mred\n" + "a" * 1000
    client, _ = client_of(*SIGNED_IN, refused, [{"errorDescription": "\x1b]0;title\x07"}])
    with pytest.raises(Refused, match=r"^refused:  \[31mred a{100,300}$"):
        client.ask("ping", "one")
    assert client.upload("one", "model", "", "bin", io.BytesIO(b"012")) == [" ]0;title "]


def test_an_answer_that_is_no_json_is_asked_for_again():
    """Such as the page of a proxy, instead of an answer or a document."""
    client, server = client_of(*SIGNED_IN)
    client._sign_in()
    server.ask = lambda *_, **__: Answer(200, {}, b"<html>")
    for one in (client, client_of()[0]):
        one.__dict__["_connection"] = server
        with pytest.raises(Unreachable, match="is it a server of Neptune's protocol"):
            one.ask("ping", "one")

"""What strangers to the truth send to Neptune's routes: refused in words, and nothing breaks.

Whoever sends it is the owner of a project here, so that each request gets as far as it can.
"""

from __future__ import annotations

import copy
import gzip
import io
import itertools
import json
import logging
import os
import socket
import struct
import tarfile
from typing import Final
from urllib.parse import quote_from_bytes, urlencode, urlsplit

import pytest

pytest.importorskip("fastapi")

import urllib3
from neptune_client import Client
from neptune_requests import good, make, operations

import seamark
from seamark.neptune.server.answers import BY_NAME
from seamark.neptune.server.series import Upload

PROJECT, WORDY = "rough/place", "rough/wordy"
MOST_ANSWER: Final = 64 << 10
REMOVING: Final = ("trashExperiments", "deleteExperiments", "deleteAllExperiments")
RAW: Final = [
    b"",
    b"\0",
    b"a\0b",
    b"../../../etc/passwd",
    b"/etc/passwd",
    b"..\\..\\x",
    b"a//b/",
    b"\xff\xfe",
    b"\xed\xa0\x80",  # half of a pair, as UTF-8 has none
    b"a\r\nSet-Cookie: x=y",
    b"x" * 7000,
    b"x/" * 3000,
    b"9" * 4400,
    b"9223372036854775808",
    b"-1",
    b"-9223372036854775809",
    b"1e999",
    b"nan",
    b"%s%n{0}{x}",
    b"'; DROP TABLE run; --",
    b"((((((((((a+)+)+)+)+)+)+)+)+)+)+$",
    "\u202e\U0001f4a9".encode(),
    b"sys/state",
]
"""Put in the place of each parameter."""
DEEP: Final = [900, 2000]
VALUES: Final = [
    None,
    True,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**4000,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "\0",
    "\ud800",
    "../../x",
    "x" * 70_000,
    "9" * 5000,
    [],
    [None],
    [[]],
    {},
    {"value": {"value": {}}},
    {"": None},
]
"""Put in the place of each part of a body."""
BODIES: Final = [
    b"",
    b"null",
    b"1",
    b'"x"',
    b"[]",
    b"{}",
    b"[null]",
    b"[[]]",
    b'{"a"',
    b"\xff\xfe\x00",
    b"\x1f\x8b\x08" + bytes(100),
    b"[" * 100_000,
    b'{"files":' * 50_000,
    b"9" * 100_000,
    b"NaN",
    b"[" + b"1," * 100_000 + b"1]",
]
"""Sent in the place of a whole body."""


@pytest.fixture(scope="module")
def admin(here):
    """The admin of the server in this process."""
    return Client(here.url, here.token)


@pytest.fixture(scope="module")
def there(admin):
    """A project with a run that has something of all kinds."""
    return make(admin, PROJECT)


@pytest.fixture(scope="module")
def victim(admin):
    """Another one, for operations that remove what they are about."""
    return make(admin, f"{PROJECT}-too")


@pytest.fixture(scope="module")
def wordy(admin):
    """Another one, for what is long: answers about the others stay short."""
    return make(admin, WORDY)


@pytest.fixture(autouse=True)
def _without_mistakes(caplog):
    """The server has logged no error: what nobody foresaw is answered as a mistake of theirs."""
    with caplog.at_level(logging.WARNING, "seamark.server"):
        yield
    found = [one for one in caplog.get_records("call") if one.levelno >= logging.ERROR]
    assert [(one.getMessage(), str(one.exc_info)) for one in found] == []


class Sender:
    """Sends requests as they stand, and looks at each answer."""

    def __init__(self, client: Client) -> None:
        self._client, self._pool = client, urllib3.PoolManager(retries=False)

    def send(
        self,
        name: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str] | None = None,
        most: int = MOST_ANSWER,
    ) -> int:
        """Ask for an operation; return the status."""
        operation = BY_NAME[name]
        answer = self._pool.request(
            operation.method,
            f"{self._client.url}{operation.path}?{target}",
            body=body,
            headers={"Content-Type": "application/json", **self._client.headers, **(headers or {})},
            redirect=False,
            timeout=30,
        )
        case = (name, target[:200], (body or b"")[:200], answer.status, answer.data[:400])
        assert answer.status < 500, case
        assert len(answer.data) < most, case
        assert b"Traceback" not in answer.data, case
        assert b"root:" not in answer.data, case
        if answer.status >= 400:
            told = json.loads(answer.data)
            assert {"title", "errorType"} <= set(told) or {"error", "hint"} <= set(told), case
        return int(answer.status)


@pytest.fixture(scope="module")
def sender(admin):
    """What sends as the admin."""
    return Sender(admin)


def encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body).encode()


def query_of(given, name="", value=b""):
    """Return a query, with one parameter as it stands."""
    rest = urlencode({key: one for key, one in given.items() if key != name})
    return f"{rest}&{name}={quote_from_bytes(value)}" if name else rest


def mutated(body):
    """Yield a body with something else in the place of each of its parts, and without each."""
    for place in _places(body):
        for value in VALUES:
            yield _with(body, place, value)
        *above, last = place
        less = copy.deepcopy(body)
        parent = less
        for step in above:
            parent = parent[step]
        del parent[last]
        yield less


def _places(body, so_far=()):
    if isinstance(body, dict | list):
        for step in body if isinstance(body, dict) else range(len(body)):
            yield (*so_far, step)
            yield from _places(body[step], (*so_far, step))


def _with(body, place, value):
    found = copy.deepcopy(body)
    parent = found
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = value
    return found


def test_parameters_of_any_kind_are_answered(sender, there, victim, request):
    """Each of each operation, with values in turn; all of them where there is time."""
    turn = itertools.count()
    for name in BY_NAME:
        body, query = good(name, victim if name in REMOVING else there)
        for parameter in query:
            few = [RAW[(next(turn) * 7) % len(RAW)] for _ in range(2)]
            for value in RAW if is_thorough(request) else few:
                target = query_of(query, parameter, value)
                sender.send(name, target, encoded(body), {"X-Range": "bytes=0-4/5"})
        sender.send(name, "", encoded(body))
        sender.send(name, query_of(query) + "&" + query_of(query), encoded(body))


def is_thorough(request):
    """Return whether a test runs where there is time: on PostgreSQL."""
    return "postgresql" in request.node.name


WITH_BODIES = [
    name for name, one in BY_NAME.items() if "@" in one.parameters and name != "executeOperations"
]


def test_bodies_of_any_kind_are_answered(sender, there, victim, request):
    """Whole ones and each of their parts."""
    turn = itertools.count()
    for name in (*WITH_BODIES, "executeOperations"):
        body, query = good(name, victim if name in REMOVING else there)
        target = query_of(query)
        for whole in BODIES:
            sender.send(name, target, whole)
        sender.send(name, target, gzip.compress(b"[]"), {"Content-Encoding": "gzip"})
        for depth in DEEP:
            deep = (b'{"a":' * depth) + b"1" + b"}" * depth
            text = json.dumps(_with(body, next(_places(body)), "HERE")).encode()
            sender.send(name, target, text.replace(b'"HERE"', deep))
        for each in mutated(body):
            if is_thorough(request) or next(turn) % 13 == 0:
                sender.send(name, target, encoded(each))


DEEP_OPERATIONS: Final = {
    "assignString": '{"value":DEEP}',
    "assignInt": '{"value":DEEP}',
    "logStrings": '{"entries":[{"value":DEEP,"timestampMilliseconds":1}]}',
    "logFloats": '{"entries":DEEP}',
    "configFloatSeries": '{"min":DEEP,"unit":DEEP}',
    "insertStrings": '{"values":[DEEP]}',
}


def wrong_operations(artifact):
    """Yield each kind of operation with something else in the place of each of its parts."""
    for each in operations(artifact):
        for wrong in mutated(each):
            yield json.dumps(wrong)
    yield from ("1", "null", "[]", "{}", '{"path":"x"}', '{"path":"x","unheard":{}}')


def test_operations_that_are_wrong_harm_no_other(admin, here, wordy):
    """Of batches of hundreds the good one is done, and all that was taken can be read."""
    run = admin.new_run(WORDY)
    wrong = list(wrong_operations(wordy.artifact))
    assert len(wrong) > 500
    for begin in range(0, len(wrong), 100):
        good_one = json.dumps({"path": "good/one", "assignInt": {"value": begin}})
        some = wrong[begin : begin + 100]
        told = admin.call("executeOperations", encode(some, good_one), experimentId=run["id"])
        if told[0] == 400 and any(len(each) > 4000 for each in some):
            continue  # no JSON that Python reads, for its depth or its digits
        assert told[0] == 200, told
        assert all(len(each["errorDescription"]) < 2000 for each in told[1])
    assert admin.do(run, {"path": "good/one", "assignInt": {"value": -1}}) == []
    shown = admin.shown(run)
    assert shown["good/one"]["value"] == -1
    assert not any("\0" in path for path in shown)
    for path, found in shown.items():
        kind = found["attributeType"]
        at = {"experimentId": run["id"], "attribute": path}
        for name in {"floatSeries": FLOATS, "stringSeries": STRINGS}.get(kind, ()):
            assert admin.call(name, **at)[0] == 200, path
    # Seamark's own reader has it as well, whatever was said of it.
    at = {"project": WORDY, "mode": "read-only", "remote": here.url, "api_token": here.token}
    with seamark.init_run(with_id=run["shortId"], **at) as read:
        assert read["good/one"].fetch() == -1
        assert len(read.get_structure()) > 1


FLOATS = ("getFloatSeriesValues", "getFloatSeriesValuesCSV", "getFloatSeriesAttribute")
STRINGS = ("getStringSeriesValues", "getStringSeriesAttribute")


def encode(operations, *more):
    return f"[{','.join([*operations, *more])}]".encode()


@pytest.mark.parametrize("name", DEEP_OPERATIONS)
def test_what_is_nested_as_deeply_as_can_be_read_is_answered(admin, wordy, name):
    """Python reads some depth and gives up when it goes on with it, a few levels above the end."""
    path = "sys/tags" if name == "insertStrings" else f"deep/{name}"

    def status(depth):
        deep = '{"a":' * depth + "1" + "}" * depth
        body = f'[{{"path":"{path}","{name}":{DEEP_OPERATIONS[name].replace("DEEP", deep)}}}]'
        return admin.call("executeOperations", body.encode(), experimentId=wordy.run)[0]

    low, high = 1, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if status(middle) == 200 else (low, middle)
    assert {status(depth) for depth in range(max(1, low - 12), low)} == {200}


def test_a_batch_of_nothing_but_mistakes_is_answered_in_short(sender, there):
    """The first of them, and how many more; however many there are."""
    body = b"[" + b"{}," * 300_000 + b"1]"
    sender.send("executeOperations", urlencode({"experimentId": there.run}), body, most=len(body))


# ---------------------------------------------------------------------- files


RANGES = [
    "",
    "bytes",
    "bytes=0-4",
    "bytes=0-4/6",
    "bytes=4-0/5",
    "bytes=-5-0/5",
    "bytes=0-5/5",
    "bytes=1-5/5",
    "bytes=0-999999999999999999/5",
    "bytes=0-4/" + "9" * 30,
    "bytes=0-4/5, 0-4/5",
    "items=0-4/5",
]


def test_parts_that_are_not_what_they_say_are_refused(admin, here, there):
    """And what was gathered stays as it was; no part is no end."""
    into = {"experimentIdentifier": there.run, "attribute": "v/parts"}
    begun = admin.ok("fileAtomMultipartUploadStart", **into, ext="../../x", totalLength=5)
    upload = {**into, "uploadId": begun["uploadId"]}
    for given in RANGES:
        for body in (b"abcde", b"", b"x" * 6):
            header = {"X-Range": given}
            status, told = admin.call("fileAtomMultipartUploadPart", body, header, **upload)
            assert status == 400, (given, told)
    assert admin.call("fileAtomMultipartUploadFinish", **upload)[0] == 400
    for length in (-1, 1 << 62, 1 << 61, "1e3"):
        status, _ = admin.call("fileAtomMultipartUploadStart", **into, totalLength=length)
        assert 400 <= status < 500, length
    uploads = here.server.settings.folder / "neptune-uploads"
    gathered = [path for path in uploads.rglob("*") if path.is_file()]
    assert all(path.parent.parent == uploads for path in gathered)
    assert not list(uploads.glob(f"{begun['uploadId'].partition('.')[0]}/*"))


def test_an_end_that_is_sent_twice_at_once_is_one(admin, here, there, monkeypatch):
    """The first is done while the second reads what is gone then."""
    into = {"experimentIdentifier": there.run, "attribute": "v/twice"}
    begun = admin.ok("fileAtomMultipartUploadStart", **into, totalLength=5)
    upload = {**into, "uploadId": begun["uploadId"]}
    header = {"X-Range": "bytes=0-4/5"}
    assert admin.call("fileAtomMultipartUploadPart", b"abcde", header, **upload)[0] == 200
    keep = Upload.keep

    def second(self, *place):
        monkeypatch.setattr(Upload, "keep", keep)
        assert admin.ok("fileAtomMultipartUploadFinish", **upload) == {"errors": []}
        return keep(self, *place)

    monkeypatch.setattr(Upload, "keep", second)
    assert admin.ok("fileAtomMultipartUploadFinish", **upload) == {"errors": []}
    found = admin.ok("downloadAttribute", experimentId=there.run, attribute="v/twice")
    assert found == b"abcde"


def test_uploads_of_long_ago_are_removed(admin, here, there):
    """Files, too, which an earlier version left; what somebody goes on with stays."""
    into = {"experimentIdentifier": there.run, "attribute": "v/left"}
    uploads = here.server.settings.folder / "neptune-uploads"
    names = [
        admin.ok("fileAtomMultipartUploadStart", **into, totalLength=5)["uploadId"]
        for _ in range(2)
    ]
    for path in (uploads / names[0] / "part", uploads / "file"):
        path.write_bytes(b"x")
    for path in (uploads / names[0], uploads / "file"):
        os.utime(path, (1, 1))
    names.append(admin.ok("fileAtomMultipartUploadStart", **into, totalLength=5)["uploadId"])
    left = {path.name for path in uploads.iterdir()}
    assert left >= set(names[1:])
    assert not left & {names[0], "file"}


def package(*members, claimed=None):
    """Return a package of names, types and contents."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        for name, kind, data in members:
            each = tarfile.TarInfo(name)
            each.type, each.size, each.linkname = kind, len(data), "/etc/passwd"
            made.addfile(each, io.BytesIO(data))
    found = plain.getvalue()
    if claimed is not None:  # in the first header, base 256, with a checksum that holds
        size = b"\x80" + claimed.to_bytes(11, "big")
        head = found[:124] + size + found[136:148] + b" " * 8 + found[156:512]
        total = b"%06o\0 " % sum(head)
        found = head[:148] + total + head[156:] + found[512:]
    return found


FILE, LINK, SYMLINK, DEVICE = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE
PACKAGES = {
    "nothing of one": b"plain text",
    "cut": gzip.compress(package(("a", FILE, b"x" * 5000)))[:60],
    "no package inside": gzip.compress(b"x" * 2000),
    "cut inside": gzip.compress(package(("a", FILE, b"x" * 5000))[:1000]),
    "more than there is": gzip.compress(package(("a", FILE, b"x"), claimed=1 << 40)),
    "less than nothing": gzip.compress(package(("a", FILE, b"x"), claimed=(1 << 88) - 512)),
    "out": gzip.compress(package(("../../out", FILE, b"x"))),
    "absolute": gzip.compress(package(("/etc/out", FILE, b"x"))),
    "long": gzip.compress(package(("x/" * 5000 + "y", FILE, b"x"))),
    "a bomb": gzip.compress(package(("a", FILE, bytes(2 << 20)))),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_of_files_are_bounded_and_stay_inside(sender, admin, there, name, monkeypatch):
    """Bombs, lies about sizes, names that lead out: refused, and nothing of them is kept."""
    monkeypatch.setattr("seamark.neptune.server.files._MOST_INFLATED", 1 << 20)
    target = urlencode({"experimentId": there.run, "attribute": "bad/files"})
    sender.send("uploadFileSetAttributeTar", target, PACKAGES[name])
    assert "bad/files" not in admin.shown({"id": there.run}), name


def test_links_in_packages_are_passed_over(admin, there):
    """Neither what they point to nor a device is read."""
    body = gzip.compress(package(("l", LINK, b""), ("s", SYMLINK, b""), ("d", DEVICE, b"")))
    to = {"experimentId": there.run, "attribute": "good/files"}
    admin.ok("uploadFileSetAttributeTar", body, **to)
    assert "good/files" not in admin.shown({"id": there.run})
    admin.ok("uploadFileSetAttributeTar", gzip.compress(package(("f", FILE, b"x"))), **to)
    assert [one["name"] for one in admin.ok("lsFileSetAttribute", **to, path="")] == ["f"]


def test_a_body_is_not_read_for_a_stranger(here, there):
    """However its length is written; a short one may be."""
    address, operation = urlsplit(here.url), BY_NAME["executeOperations"]
    query = urlencode({"experimentId": there.run})
    for length in (b"30000000", b"00000000030000000"):
        head = f"POST {operation.path}?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: "
        with socket.create_connection((str(address.hostname), address.port or 80)) as wire:
            wire.settimeout(20)
            wire.sendall(head.encode() + length + b"\r\n\r\n[")
            assert wire.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 404"), length


def test_who_hangs_up_leaves_nothing_behind(admin, here, there):
    """In the middle of a body, for each operation that takes one."""
    before = admin.shown({"id": there.run}).keys()
    address = urlsplit(here.url)
    for name, operation in BY_NAME.items():
        body, query = good(name, there)
        if body is None or operation.method != "POST" or name in REMOVING:
            continue
        whole = encoded(body) or b""
        head = (
            f"POST {operation.path}?{urlencode(query)} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {admin.headers['Authorization']}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(whole) + 10}\r\n\r\n"
        )
        with socket.create_connection((str(address.hostname), address.port or 80)) as wire:
            wire.sendall(head.encode() + whole[: len(whole) // 2])
            # Closed at once, not politely.
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert admin.shown({"id": there.run}).keys() == before

"""Hostile requests to Neptune's routes: refused with an explanation, and nothing breaks.

The sender owns the projects here, so that each request gets as far as it can.
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
import tarfile
from typing import Final
from urllib.parse import quote_from_bytes, urlencode, urlsplit

import pytest

pytest.importorskip("fastapi")

import urllib3
from neptune_requests import good, make, operations

import seamark
from seamark.neptune.server.answers import BY_NAME
from seamark.neptune.server.series import Upload

WORDY = "rough/wordy"
"""A project for long values, so that answers about the others stay short."""
MOST_ANSWER: Final = 64 << 10
REMOVING: Final = ("trashExperiments", "deleteExperiments", "deleteAllExperiments")
RAW: Final = [
    *(b"", b"\0", b"a\0b", b"../../../etc/passwd", b"/etc/passwd", b"..\\..\\x", b"a//b/"),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"a\r\nSet-Cookie: x=y", b"x" * 7000, b"x/" * 3000),
    *(b"9" * 4400, b"9223372036854775808", b"-1", b"-9223372036854775809", b"1e999", b"nan"),
    *(b"%s%n{0}{x}", b"'; DROP TABLE run; --", b"((((((((((a+)+)+)+)+)+)+)+)+)+)+$"),
    *("\u202e\U0001f4a9".encode(), b"sys/state"),
]
"""Values of each parameter; one is half of a surrogate pair, which UTF-8 does not allow."""
DEEP: Final = [900, 2000]
VALUES: Final = [
    *(None, True, -1, 2**31, 2**63, -(2**63) - 1, 10**4000, 1e308, float("inf"), float("nan")),
    *("", "\0", "\ud800", "../../x", "x" * 70_000, "9" * 5000),
    *([], [None], [[]], {}, {"value": {"value": {}}}, {"": None}),
]
"""Values of each part of a body."""
BODIES: Final = [
    *(b"", b"null", b"1", b'"x"', b"[]", b"{}", b"[null]", b"[[]]", b'{"a"', b"\xff\xfe\x00"),
    *(b"\x1f\x8b\x08" + bytes(100), b"[" * 100_000, b'{"files":' * 50_000, b"9" * 100_000),
    *(b"NaN", b"[" + b"1," * 100_000 + b"1]"),
]
"""Whole bodies."""


@pytest.fixture(scope="module")
def there(admin):
    """A project with a run that has values of all kinds."""
    return make(admin, "rough/place")


@pytest.fixture(scope="module")
def victim(admin):
    """Another one, for operations that remove runs."""
    return make(admin, "rough/place-too")


@pytest.fixture(autouse=True)
def _without_mistakes(caplog):
    """Check that the server logs no error: unexpected requests are answered as mistakes."""
    with caplog.at_level(logging.WARNING, "seamark.server"):
        yield
    found = [one for one in caplog.get_records("call") if one.levelno >= logging.ERROR]
    assert [(one.getMessage(), str(one.exc_info)) for one in found] == []


@pytest.fixture(scope="module")
def send(admin):
    """Send a request as it stands, check the answer, and return its status."""
    pool = urllib3.PoolManager(retries=False)

    def send(name, target, body, headers=None, most=MOST_ANSWER):
        operation = BY_NAME[name]
        answer = pool.request(
            operation.method,
            f"{admin.url}{operation.path}?{target}",
            body=body,
            headers={"Content-Type": "application/json", **admin.headers, **(headers or {})},
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
        return answer.status

    return send


def encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body).encode()


def query_of(given, name="", value=b""):
    """Return a query, with one parameter as it stands."""
    rest = urlencode({key: one for key, one in given.items() if key != name})
    return f"{rest}&{name}={quote_from_bytes(value)}" if name else rest


def mutated(body):
    """Yield a body with other values for each of its parts, and without each."""
    for *above, last in _places(body):
        for value in [*VALUES, ...]:
            found = copy.deepcopy(body)
            parent = found
            for step in above:
                parent = parent[step]
            if value is ...:
                del parent[last]
            else:
                parent[last] = value
            yield found


def _places(body, so_far=()):
    if isinstance(body, dict | list):
        for step in body if isinstance(body, dict) else range(len(body)):
            yield (*so_far, step)
            yield from _places(body[step], (*so_far, step))


def is_thorough(request):
    """Return whether a test runs on PostgreSQL, where all cases are tried."""
    return "postgresql" in request.node.name


def test_parameters_of_any_kind_are_answered(send, there, victim, request):
    turn = itertools.count()
    for name in BY_NAME:
        body, query = good(name, victim if name in REMOVING else there)
        for parameter in query:
            few = [RAW[(next(turn) * 7) % len(RAW)] for _ in range(2)]
            for value in RAW if is_thorough(request) else few:
                target = query_of(query, parameter, value)
                send(name, target, encoded(body), {"X-Range": "bytes=0-4/5"})
        send(name, "", encoded(body))
        send(name, query_of(query) + "&" + query_of(query), encoded(body))


def test_bodies_of_any_kind_are_answered(send, there, victim, request):
    """Whole ones, and with other values for each of their parts."""
    turn = itertools.count()
    for name in (name for name, one in BY_NAME.items() if "@" in one.parameters):
        body, query = good(name, victim if name in REMOVING else there)
        target = query_of(query)
        for whole in BODIES:
            send(name, target, whole)
        send(name, target, gzip.compress(b"[]"), {"Content-Encoding": "gzip"})
        for depth in DEEP:
            deep = (b'{"a":' * depth) + b"1" + b"}" * depth
            first = next(_places(body))[0]
            holed = {**body, first: "HERE"} if isinstance(body, dict) else ["HERE", *body[1:]]
            send(name, target, json.dumps(holed).encode().replace(b'"HERE"', deep))
        for each in mutated(body):
            if is_thorough(request) or next(turn) % 13 == 0:
                send(name, target, encoded(each))


FLOATS = ("getFloatSeriesValues", "getFloatSeriesValuesCSV", "getFloatSeriesAttribute")
STRINGS = ("getStringSeriesValues", "getStringSeriesAttribute")


def test_wrong_operations_harm_no_other(admin, here, there):
    """Of batches of hundreds the good one is done, and all accepted values can be read."""
    run = admin.new_run(WORDY)
    wrong = [json.dumps(one) for each in operations(there.artifact) for one in mutated(each)]
    wrong += ["1", "null", "[]", "{}", '{"path":"x"}', '{"path":"x","unheard":{}}']
    assert len(wrong) > 500
    for begin in range(0, len(wrong), 100):
        good_one = json.dumps({"path": "good/one", "assignInt": {"value": begin}})
        some = wrong[begin : begin + 100]
        body = f"[{','.join([*some, good_one])}]".encode()
        told = admin.call("executeOperations", body, experimentId=run["id"])
        if told[0] == 400 and any(len(each) > 4000 for each in some):
            continue  # no JSON that Python reads, for its depth or its digits
        assert told[0] == 200, told
        assert all(len(each["errorDescription"]) < 2000 for each in told[1])
    assert admin.do(run, {"path": "good/one", "assignInt": {"value": -1}}) == []
    shown = admin.shown(run)
    assert shown["good/one"]["value"] == -1
    assert not any("\0" in path for path in shown)
    for path, found in shown.items():
        at = {"experimentId": run["id"], "attribute": path}
        series = {"floatSeries": FLOATS, "stringSeries": STRINGS}
        for name in series.get(found["attributeType"], ()):
            assert admin.call(name, **at)[0] == 200, path
    # Seamark's own reader has it as well.
    at = {"project": WORDY, "mode": "read-only", "remote": here.url, "api_token": here.token}
    with seamark.init_run(with_id=run["shortId"], **at) as read:
        assert read["good/one"].fetch() == -1
        assert len(read.get_structure()) > 1


def test_the_answer_to_a_batch_of_mistakes_is_short(send, there):
    """It has the first of them, and their number."""
    body = b"[" + b"{}," * 30_000 + b"1]"
    send("executeOperations", urlencode({"experimentId": there.run}), body, most=len(body))


# ---------------------------------------------------------------------- files


RANGES = [
    *("", "bytes", "bytes=0-4", "bytes=0-4/6", "bytes=4-0/5", "bytes=-5-0/5", "bytes=0-5/5"),
    *("bytes=1-5/5", "bytes=0-999999999999999999/5", "bytes=0-4/" + "9" * 30),
    *("bytes=0-4/5, 0-4/5", "items=0-4/5"),
]


def begin_upload(admin, there, attribute, **more):
    """Begin a file of five bytes; return the parameters of its parts."""
    into = {"experimentIdentifier": there.run, "attribute": attribute}
    begun = admin.ok("fileAtomMultipartUploadStart", **into, **more, totalLength=5)
    return {**into, "uploadId": begun["uploadId"]}


def test_parts_with_wrong_ranges_are_refused(admin, here, there):
    """Received parts stay; an upload without parts cannot be finished."""
    upload = begin_upload(admin, there, "v/parts", ext="../../x")
    for given in RANGES:
        for body in (b"abcde", b"", b"x" * 6):
            header = {"X-Range": given}
            status, told = admin.call("fileAtomMultipartUploadPart", body, header, **upload)
            assert status == 400, (given, told)
    assert admin.call("fileAtomMultipartUploadFinish", **upload)[0] == 400
    for length in (-1, 1 << 62, 1 << 61, "1e3"):
        status, _ = admin.call("fileAtomMultipartUploadStart", **upload, totalLength=length)
        assert 400 <= status < 500, length
    uploads = here.server.settings.folder / "neptune-uploads"
    assert all(path.is_file() for path in uploads.iterdir())
    assert not (uploads / upload["uploadId"].partition(".")[0]).stat().st_size


@pytest.mark.parametrize("during", ["keep", "is_stored"])
def test_an_upload_that_is_finished_twice_at_once_is_kept_once(admin, there, monkeypatch, during):
    """Another request finishes it while the first one reads it, or looks whether it is stored."""
    upload = begin_upload(admin, there, f"v/{during}")
    header = {"X-Range": "bytes=0-4/5"}
    assert admin.call("fileAtomMultipartUploadPart", b"abcde", header, **upload)[0] == 200
    real = getattr(Upload, during)

    def finish():
        assert admin.ok("fileAtomMultipartUploadFinish", **upload) == {"errors": []}

    def keep(self, *place):
        monkeypatch.setattr(Upload, during, real)
        finish()
        return self.keep(*place)

    def is_stored(self):
        monkeypatch.setattr(Upload, during, real)
        found = self.is_stored
        finish()
        return found

    monkeypatch.setattr(Upload, during, {"keep": keep, "is_stored": property(is_stored)}[during])
    finish()
    found = admin.ok("downloadAttribute", experimentId=there.run, attribute=f"v/{during}")
    assert found == b"abcde"


def test_old_unfinished_uploads_are_removed(admin, here, there):
    """Also other files; recent ones stay."""
    uploads = here.server.settings.folder / "neptune-uploads"
    names = [begin_upload(admin, there, "v/left")["uploadId"] for _ in range(2)]
    (uploads / "file").write_bytes(b"x")
    for path in (uploads / names[0], uploads / "file"):
        os.utime(path, (1, 1))
    names.append(begin_upload(admin, there, "v/left")["uploadId"])
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
ONE = ("a", FILE, b"x")
PACKAGES = {
    "not gzip": b"plain text",
    "cut": gzip.compress(package(("a", FILE, b"x" * 5000)))[:60],
    "cut inside": gzip.compress(package(("a", FILE, b"x" * 5000))[:1000]),
    "more than there is": gzip.compress(package(ONE, claimed=1 << 40)),
    "less than nothing": gzip.compress(package(ONE, claimed=(1 << 88) - 512)),
    "out": gzip.compress(package(("../../out", FILE, b"x"))),
    "absolute": gzip.compress(package(("/etc/out", FILE, b"x"))),
    "long": gzip.compress(package(("x/" * 5000 + "y", FILE, b"x"))),
    "a bomb": gzip.compress(package(("a", FILE, bytes(2 << 20)))),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_bad_packages_of_files_are_refused_whole(send, admin, there, name, monkeypatch):
    """Bombs, wrong sizes and names that lead out of the set."""
    monkeypatch.setattr("seamark.neptune.server.files._MAX_INFLATED", 1 << 20)
    target = urlencode({"experimentId": there.run, "attribute": "bad/files"})
    send("uploadFileSetAttributeTar", target, PACKAGES[name])
    assert "bad/files" not in admin.shown({"id": there.run}), name


def test_links_and_devices_in_packages_are_skipped(admin, there):
    body = gzip.compress(package(("l", LINK, b""), ("s", SYMLINK, b""), ("d", DEVICE, b"")))
    to = {"experimentId": there.run, "attribute": "good/files"}
    admin.ok("uploadFileSetAttributeTar", body, **to)
    assert "good/files" not in admin.shown({"id": there.run})
    admin.ok("uploadFileSetAttributeTar", gzip.compress(package(ONE)), **to)
    assert [one["name"] for one in admin.ok("lsFileSetAttribute", **to, path="")] == ["a"]


def executing(here, there, head, body):
    """Open a connection, and send what an executeOperations has of a head and a body."""
    at, path = urlsplit(here.url), BY_NAME["executeOperations"].path
    begun = f"POST {path}?experimentId={there.run} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n"
    wire = socket.create_connection((str(at.hostname), at.port or 80), 20)
    wire.sendall(begun.encode() + body)
    return wire


@pytest.mark.parametrize("length", ["30000000", "00000000030000000"])
def test_a_long_body_is_not_read_without_a_token(here, there, length):
    with executing(here, there, f"Content-Length: {length}", b"[") as wire:
        assert wire.recv(12) in (b"HTTP/1.1 401", b"HTTP/1.1 404")

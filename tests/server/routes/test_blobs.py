"""Contents of files over HTTP, as shippers and browsers ask for them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import uuid
from typing import Any
from unittest.mock import Mock, call
from urllib.parse import quote

import asking
import pytest

from seamark.remote.http.sender import open_remote
from seamark.remote.protocol import Refused, RunKey

CONTENT = bytes(range(256)) * 80_000  # more than two parts
DIGEST = hashlib.sha256(CONTENT).hexdigest()
HTML = b"<script>alert(1)</script>"
HTML_DIGEST = hashlib.sha256(HTML).hexdigest()


@pytest.fixture
def run():
    return RunKey(f"team/p{uuid.uuid4().hex}", "run0000000000001")


@pytest.fixture
def remote(team):
    with contextlib.closing(open_remote(team.url, team.token)) as opened:
        yield opened


@pytest.fixture
def ask(team, run):
    """Return what asks about the files of the run."""

    def asks(path="", method="GET", body=None, **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        place = f"runs/{run.project}/{run.run}/blobs{path}"
        return asking.ask(team.url, method, place, team.token, body, given)

    return asks


def put(remote, run, content, digest=None):
    digest = hashlib.sha256(content).hexdigest() if digest is None else digest
    remote.put_blob(run, digest, len(content), io.BytesIO(content))


@pytest.mark.parametrize(
    ("path", "method", "body", "status", "slug"),
    [
        ("/nonsense", "GET", None, 422, "invalid"),
        (f"/{'0' * 64}", "GET", None, 404, "no-content"),
        (f"/{DIGEST}?offset=5&size=10", "PUT", b"x", 409, "gap"),
        (f"/{DIGEST}?offset=0&size=1", "PUT", b"x", 422, "digest"),
        (f"/{DIGEST}?offset=0&size=1", "PUT", b"xyz", 422, "invalid"),
        (f"/{DIGEST}?offset=8&size=10", "PUT", b"long", 422, "invalid"),
        (f"/{DIGEST}?offset=-1&size=1", "PUT", b"x", 422, "invalid"),
        (f"/{DIGEST}?offset=0&size={1 << 50}", "PUT", b"x", 413, "too-large"),
        (f"/{DIGEST}?offset=0&size=9000000", "PUT", bytes(9_000_000), 413, "too-large"),
        *((f"/{it}", "GET", None, 422, "invalid") for it in ("A" * 64, "0" * 63, "0" * 64 + "%0a")),
        ("", "POST", b'{"digests": ["x"]}', 422, "invalid"),
        ("", "POST", b'{"digests": "x"}', 422, "invalid"),
        ("", "POST", b"not json", 422, "invalid"),
    ],
)
def test_invalid_requests_are_refused_in_a_sentence(ask, path, method, body, status, slug):
    answer = ask(path, method, body, Content_Type="application/json")
    told = json.loads(answer.body)
    assert (answer.status, told["error"]) == (status, slug)
    assert len(told["hint"].split()) > 3


def test_file_is_sent_in_parts_and_fetched_whole_or_in_ranges(remote, run, ask):
    """Ranges are those of RFC 9110; bytes of another digest are refused."""
    with pytest.raises(Refused, match="send the content again"):
        put(remote, run, CONTENT[:-1] + b"!", DIGEST)
    assert remote.missing_blobs(run, [DIGEST, HTML_DIGEST]) == {DIGEST, HTML_DIGEST}
    cut = 8 << 20
    assert ask(f"/{DIGEST}?size={len(CONTENT)}&offset=0", "PUT", CONTENT[:cut]).status == 200
    file = Mock(wraps=io.BytesIO(CONTENT))
    remote.put_blob(run, DIGEST, len(CONTENT), file)
    assert file.seek.mock_calls == [call(cut), call(2 * cut)]  # it goes on where the server is
    put(remote, run, CONTENT)
    assert remote.missing_blobs(run, [DIGEST, HTML_DIGEST]) == {HTML_DIGEST}
    whole = ask(f"/{DIGEST}")
    assert (whole.status, whole.body) == (200, CONTENT)
    size = len(CONTENT)
    for given, start, end in [
        ("bytes=0-0", 0, 1),
        (f"bytes={cut - 5}-{cut + 5}", cut - 5, cut + 6),
        (f"bytes={size - 3}-", size - 3, size),
        ("bytes=-7", size - 7, size),
        (f"bytes={size - 3}-{size + 100}", size - 3, size),
        (f"bytes=-{2 * size}", 0, size),
    ]:
        part = ask(f"/{DIGEST}", Range=given)
        assert (part.status, part.body) == (206, CONTENT[start:end])
        assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{size}"
    beyond = ask(f"/{DIGEST}", Range=f"bytes={size}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    assert ask(f"/{DIGEST}", Range="bytes=0-1,5-6").status == 200
    assert ask(f"/{DIGEST}", Range="bytes=0-0", If_Range='"other"').status == 200
    assert ask(f"/{DIGEST}", If_None_Match=f'"{DIGEST}"').status == 304


@pytest.mark.parametrize("name", ["evil.html", "x.svg", 'a"\r\nSet-Cookie: b.png'])
def test_files_are_served_as_downloads_that_run_nothing(remote, run, ask, name):
    put(remote, run, HTML)
    answer = ask(f"/{HTML_DIGEST}?name={quote(name)}")
    headers: Any = answer.headers
    assert answer.body == HTML
    assert headers["content-disposition"].startswith("attachment; filename=")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("sandbox")
    assert "set-cookie" not in headers
    kind = headers["content-type"]
    assert kind in ("application/octet-stream", "image/png")

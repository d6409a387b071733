"""Sending journals to a real server over a socket."""

from __future__ import annotations

import contextlib
import os
import zlib

import pytest
import zstandard
from asking import ask
from journal_builder import JournalBuilder
from keeping import journal

from seamark.journal.format import FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES, ZLIB, Kind
from seamark.journal.shipping import BATCH_BYTES
from seamark.remote.protocol import RunKey
from seamark.remote.schemes import open_remote

pytestmark = pytest.mark.once


@pytest.fixture
def put(team):
    """Return a function that sends a part of a journal, compressed unless headers are given."""

    def put(made, offset, data=b"", *, gap=0, run="run1", headers=None):
        if headers is None and data:
            data, headers = zstandard.compress(data), {"Content-Encoding": "zstd"}
        path = f"runs/{made.header['project']}/{run}/journals/{made.file}?offset={offset}"
        path += f"&gap={gap}" if gap else ""
        return ask(team.url, "PUT", path, team.token, data, headers)

    return put


def known(team, project, run="run1"):
    return ask(team.url, "GET", f"runs/{project}/{run}/journals", team.token).json()


def test_journal_is_sent_and_what_is_refused_says_where_to_go_on(team, put):
    """Compressed and plain; `RemoteContract` has the rest of what is taken and refused."""
    made = journal(project="team/sent", run="run1")
    a, b = made.ends[4], made.ends[5]
    first = put(made, 0, made.data[:a])
    assert (first.status, first.json()["offset"], first.json()["position"]) == (200, a, a)
    assert 0 <= first.json()["wait_s"] <= 10
    of_other = JournalBuilder("one", project="team/sent", run="run1", writer="host-1-other")
    for foreign, run in ((made, "run2"), (of_other, "run3")):
        refused = put(foreign, 0, foreign.data, run=run)
        assert (refused.status, refused.json()["error"]) == (422, "foreign-header")
        assert known(team, "team/sent", run) == {"journals": {}, "position": 0}
    for data in (b"x" * 100, made.data[a:-8]):
        torn = put(made, a, data)
        assert (torn.status, torn.json()["error"]) == (422, "not-a-journal")
        assert torn.json()["hint"]
    assert put(made, a, made.data[a:], gap=8).status == 422
    for encoding, status in (("gzip", 415), ("zstd", 422), ("zstd, zstd", 415)):
        refused = put(made, a, made.data[a:], headers={"Content-Encoding": encoding})
        assert (refused.status, "zstd" in refused.json()["hint"]) == (status, True), encoding
    assert put(made, a, gap=b - a).json()["offset"] == b
    last = put(made, b, made.data[b:], headers={})
    assert last.json()["position"] == made.offset
    journals = {made.file: made.offset}
    assert known(team, "team/sent") == {"journals": journals, "position": made.offset}
    path = f"runs/team/sent/run1/journals/{made.file}?offset={made.offset}"
    assert ask(team.url, "GET", path, team.token).status == 204


def test_bombs_are_refused_and_one_long_frame_is_taken(team, put):
    made = journal(project="team/bombs", run="run1")
    zeros = zstandard.compress(bytes(65 << 20))
    bomb = put(made, 0, zeros, headers={"Content-Encoding": "zstd"})
    assert (bomb.status, bomb.json()["limit"]) == (413, "plain_bytes")
    packed = zlib.compress(bytes(15 << 20))
    for _ in range(18):
        made.frame(Kind.TEXT, packed, flags=ZLIB)
    answer = put(made, 0, made.data)
    assert (answer.status, answer.json()["limit"]) == (413, "inflated_bytes")
    assert put(made, 0, os.urandom(20 << 20), headers={}).status == 413
    assert known(team, "team/bombs")["journals"] == {}
    made = journal(rows=0, project="team/bombs", run="run1")
    start = made.offset
    made.frame(Kind.TEXT, os.urandom(15 << 20))
    assert put(made, 0, made.data[:start]).status == 200
    answer = put(made, start, made.data[start:])
    assert (answer.status, answer.json().get("offset")) == (200, made.offset), answer.body[:300]


def test_client_sends_batches_of_the_limits_that_do_not_compress(team):
    """The client compresses all batches, also those that become larger."""
    run, made = RunKey("team/noise", "run1"), journal(rows=0, project="team/noise", run="run1")
    left = BATCH_BYTES - made.offset
    for size in (left // 2 // 8 * 8, left - left // 2 // 8 * 8):
        made.frame(Kind.TEXT, os.urandom(size - FRAME_HEADER_BYTES))
    assert made.offset == BATCH_BYTES
    made.frame(Kind.TEXT, os.urandom(MAX_PAYLOAD_BYTES))
    with contextlib.closing(open_remote(team.url, team.token)) as remote:
        for start, end in ((0, BATCH_BYTES), (BATCH_BYTES, made.offset)):
            assert remote.send(run, made.file, start, made.data[start:end]).offset == end

"""Sending journals to a real server over a socket."""

from __future__ import annotations

import os
import zlib

import pytest

pytest.importorskip("fastapi")

import zstandard
from asking import ask
from journal_builder import JournalBuilder
from keeping import journal

from seamark.journal.format import ZLIB, Kind

pytestmark = pytest.mark.once


class Sender:
    """Sends the journals of one run to a server."""

    def __init__(self, team, project: str) -> None:
        self.team, self.project = team, project

    def journal(self, rows=12):
        return journal("one", rows, project=self.project, run="run1")

    def put(self, made, offset: int, data: bytes = b"", *, packed=True, gap=0, run="run1", **more):
        headers = dict(more)
        if packed and data:
            data, headers = zstandard.compress(data), {"Content-Encoding": "zstd"}
        path = f"runs/{self.project}/{run}/journals/{made.file}?offset={offset}"
        path += f"&gap={gap}" if gap else ""
        return ask(self.team.url, "PUT", path, self.team.token, data, headers)

    def known(self, run: str = "run1"):
        path = f"runs/{self.project}/{run}/journals"
        return ask(self.team.url, "GET", path, self.team.token).json()


def test_journal_is_sent_and_what_is_refused_says_where_to_go_on(team):
    """Compressed and plain; `RemoteContract` has the rest of what is taken and refused."""
    sender = Sender(team, "team/sent")
    made = sender.journal()
    a, b = made.ends[4], made.ends[5]
    hole = sender.put(made, a, made.data[a:])
    assert (hole.status, hole.json()["error"], hole.json()["known"]) == (409, "gap", 0)
    first = sender.put(made, 0, made.data[:a])
    assert (first.status, first.json()["offset"], first.json()["position"]) == (200, a, a)
    assert 0 <= first.json()["wait_s"] <= 10
    of_other = JournalBuilder("one", project="team/sent", run="run1", writer="host-1-other")
    for foreign, run in ((made, "run2"), (of_other, "run3")):
        refused = sender.put(foreign, 0, foreign.data, run=run)
        assert (refused.status, refused.json()["error"]) == (422, "foreign-header")
        assert sender.known(run) == {"journals": {}, "position": 0}
    for data in (b"x" * 100, made.data[a:-8]):
        torn = sender.put(made, a, data)
        assert (torn.status, torn.json()["error"]) == (422, "not-a-journal")
        assert torn.json()["hint"]
    assert sender.put(made, a, made.data[a:], gap=8).status == 422
    for encoding, status in (("gzip", 415), ("br", 415), ("zstd", 422), ("zstd, zstd", 415)):
        headers = {"Content-Encoding": encoding}
        refused = sender.put(made, a, made.data[a:], packed=False, **headers)
        assert (refused.status, "zstd" in refused.json()["hint"]) == (status, True), encoding
    assert sender.put(made, a, gap=b - a).json()["offset"] == b
    last = sender.put(made, b, made.data[b:], packed=False)
    assert last.json()["position"] == made.offset
    assert sender.known() == {"journals": {made.file: made.offset}, "position": made.offset}


def test_bombs_are_refused_and_one_long_frame_is_taken(team):
    sender = Sender(team, "team/bombs")
    made = sender.journal()
    zeros = zstandard.compress(bytes(65 << 20))
    bomb = sender.put(made, 0, zeros, packed=False, **{"Content-Encoding": "zstd"})
    assert (bomb.status, bomb.json()["limit"]) == (413, "plain_bytes")
    inner = sender.journal()
    packed = zlib.compress(bytes(15 << 20))
    for _ in range(18):
        inner.frame(Kind.TEXT, packed, flags=ZLIB)
    answer = sender.put(inner, 0, inner.data)
    assert (answer.status, answer.json()["limit"]) == (413, "inflated_bytes")
    long = sender.put(made, 0, os.urandom(20 << 20), packed=False)
    assert long.status == 413
    assert sender.known()["journals"] == {}
    made = sender.journal(0)
    start = made.offset
    made.frame(Kind.TEXT, os.urandom(15 << 20))
    assert sender.put(made, 0, made.data[:start]).status == 200
    answer = sender.put(made, start, made.data[start:])
    assert (answer.status, answer.json().get("offset")) == (200, made.offset), answer.body[:300]

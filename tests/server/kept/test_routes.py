"""Sending journals to a real server over a socket."""

from __future__ import annotations

import os
import zlib
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

import zstandard
from asking import ask
from journal_builder import JournalBuilder
from keeping import journal

from seamark.journal.format import ZLIB, Kind

pytestmark = pytest.mark.once


class Sender:
    """Sends to one project of a server."""

    def __init__(self, team, project: str) -> None:
        self.team, self.project = team, project

    def put(self, made, offset: int, data: bytes = b"", *, packed=True, gap=0, run=None, **rest):
        headers = rest.pop("headers", {})
        if packed and data:
            data = zstandard.compress(data)
            headers = {"Content-Encoding": "zstd", **headers}
        name = made if isinstance(made, str) else made.file
        path = f"runs/{self.project}/{run or 'run1'}/journals/{quote(name, safe='')}"
        query = f"?offset={offset}" + (f"&gap={gap}" if gap else "")
        token = rest.pop("token", self.team.token)
        return ask(self.team.url, "PUT", path + query, token, data, headers)

    def known(self, run: str = "run1", token: str | None = None):
        given = self.team.token if token is None else token
        return ask(self.team.url, "GET", f"runs/{self.project}/{run}/journals", given)


@pytest.fixture
def sender(team, request):
    return Sender(team, "team/" + request.node.name.replace("[", "-").replace("]", "")[:90])


def made_for(sender, name="one", rows=12):
    return journal(name, rows, project=sender.project, run="run1")


def test_a_journal_is_sent(sender):
    """Compressed and plain, with a gap; asked for, all of it is known."""
    made = made_for(sender)
    a, b = made.ends[4], made.ends[5]
    first = sender.put(made, 0, made.data[:a])
    assert (first.status, first.json()["offset"], first.json()["position"]) == (200, a, a)
    assert 0 <= first.json()["wait_s"] <= 10
    assert sender.put(made, a, gap=b - a).json()["offset"] == b
    last = sender.put(made, b, made.data[b:], packed=False)
    assert last.json()["position"] == made.offset
    assert sender.known().json() == {"journals": {made.file: made.offset}, "position": made.offset}
    assert sender.known("run9").json() == {"journals": {}, "position": 0}


def test_what_is_not_taken_says_why_and_where_to_go_on(sender):
    """A hole, other bytes, a header for another run, no journal at all."""
    made, other = made_for(sender), JournalBuilder("one", project=sender.project, run="run1")
    other.assign(x=1)
    end = made.ends[3]
    hole = sender.put(made, end, made.data[end:])
    assert (hole.status, hole.json()["error"], hole.json()["known"]) == (409, "gap", 0)
    sender.put(made, 0, made.data[:end])
    answer = sender.put(made, 0, other.data)
    assert (answer.status, answer.json()["error"]) == (409, "diverged")
    assert answer.json()["known"] == end
    foreign = sender.put(made, 0, made.data, run="run2")
    assert (foreign.status, foreign.json()["error"]) == (422, "foreign-header")
    for data in (b"x" * 100, made.data[end:-8]):
        torn = sender.put(made, end, data)
        assert (torn.status, torn.json()["error"]) == (422, "not-a-journal")
        assert torn.json()["hint"]
    both = sender.put(made, end, made.data[end:], gap=8)
    assert both.status == 422


def test_names_and_numbers_from_nowhere_are_refused(team):
    """With an answer in the one form, and never a mistake of the server."""
    made = journal(project="team/x", run="run1")
    for path in (
        "../../etc/run1/journals/x.{uid}?offset=0",
        "x/run1/journals/..%2f..%2fx.{uid}?offset=0",
        "x/run1/journals/x?offset=0",
        "x/run1/journals/x.{uid}?offset=-1",
        "x/run1/journals/x.{uid}?offset=9999999999999999999999",
        "x/run1/journals/x.{uid}?offset=nan",
        "x/run1/journals/x.{uid}",
        "x/run1/journals/x.{uid}?offset=32&gap=1152921504606846976",
        "journal/run1/journals/x.{uid}?offset=0",
    ):
        address = f"runs/team/{path.format(uid='0' * 32)}"
        answer = ask(team.url, "PUT", address, team.token, made.data)
        assert 400 <= answer.status < 500, (path, answer.body)
        assert answer.json()["error"]


def test_bombs_are_refused(sender):
    """Of zstd, of zlib inside frames, and bodies that are too long."""
    made = made_for(sender)
    zeros = zstandard.compress(bytes(65 << 20))
    encoding = {"Content-Encoding": "zstd"}
    bomb = sender.put(made, 0, zeros, packed=False, headers=encoding)
    assert (bomb.status, bomb.json()["limit"]) == (413, "plain_bytes")
    inner = made_for(sender)
    packed = zlib.compress(bytes(15 << 20))
    for _ in range(18):
        inner.frame(Kind.TEXT, packed, flags=ZLIB)
    answer = sender.put(inner, 0, inner.data)
    assert (answer.status, answer.json()["limit"]) == (413, "inflated_bytes")
    long = sender.put(made, 0, os.urandom(20 << 20), packed=False)
    assert long.status == 413
    assert sender.known().json()["journals"] == {}


def test_one_long_frame_is_taken_although_it_does_not_get_smaller(sender):
    made = made_for(sender, rows=0)
    start = made.offset
    made.frame(Kind.TEXT, os.urandom(15 << 20))
    assert sender.put(made, 0, made.data[:start]).status == 200
    answer = sender.put(made, start, made.data[start:])
    assert (answer.status, answer.json().get("offset")) == (200, made.offset), answer.body[:300]


def test_other_encodings_are_refused(sender):
    made = made_for(sender)
    for encoding, status in (("gzip", 415), ("br", 415), ("zstd", 422), ("zstd, zstd", 415)):
        headers = {"Content-Encoding": encoding}
        answer = sender.put(made, 0, made.data, packed=False, headers=headers)
        assert answer.status == status
        assert "zstd" in answer.json()["hint"]

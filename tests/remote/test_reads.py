"""Answers of a server that come in parts, and odd ones, as its client reads them."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from asking import answering as answering_http

from seamark.reading.codec import SeriesPart, WireError, pack
from seamark.reading.points import Points
from seamark.reading.reader import Answer
from seamark.remote.http import reads
from seamark.remote.http.connection import Connection
from seamark.remote.http.run import RemoteRun
from seamark.remote.http.sender import HttpRemote
from seamark.remote.protocol import RemoteError, RunKey


@contextlib.contextmanager
def answering(answer):
    """Answer each question about a verb with what a function returns."""

    def answered(path, body):
        if not body:
            return 200, {}, b'{"journals": {}, "position": 1}'
        found = pack(answer(path.rpartition("/")[2], json.loads(body)))
        return 200, {"Content-Type": "application/msgpack"}, found

    with answering_http(answered) as port:
        connection = Connection(f"http://127.0.0.1:{port}", "t")
        yield connection
        connection.close()


NONE = SeriesPart("p", "r", "a", points=Points.none())
REST = SeriesPart("p", "r", "b", begins=False, points=Points.none())


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        *[
            (Answer(parts), lambda run: run.many_points(["a", "b"]))
            for parts in ([], [NONE], [NONE, REST])
        ],
        (Answer([SeriesPart("p", "r", "a")]), lambda run: run.points("a")),
        (Answer([NONE], next="x"), lambda run: run.points("a")),
        (Answer([], next="x"), lambda run: run.texts("a")),
        (Answer({"a": "b"}, next="x"), lambda run: run.families()),
        (Answer("x", next="x"), lambda run: run.last("a")),
        (Answer(unchanged=True), lambda run: run.families()),
        (Answer(), lambda run: run.ranks()),
    ],
)
def test_an_inconsistent_answer_is_an_error(answer, read):
    with answering(lambda *_: answer) as connection, pytest.raises(WireError):
        read(RemoteRun(reads.ServerClient(connection), "p", "r"))


def test_a_series_that_begins_again_replaces_its_earlier_part():
    def answer(_, question):
        def part(path, *values, begins=True):
            made = np.array(values)
            own = Points(made, made, np.zeros(len(made), "i8"), np.zeros(len(made), "i8"))
            return SeriesPart("p", "r", path, begins, own)

        parts = {
            None: ([part("a"), part("b", 1.0, 2.0)], "1"),
            "1": ([part("b", 3.0, begins=False)], "2"),
            "2": ([part("b", 7.0)], "3"),
            "3": ([part("b", 8.0, begins=False)], None),
        }
        found, following = parts[question.get("next")]
        return Answer(found, next=following)

    with answering(answer) as connection:
        run = RemoteRun(reads.ServerClient(connection), "p", "r")
        found = run.many_points(["b", "a"])
        assert {path: one.value.tolist() for path, one in found.items()} == {"b": [7, 8], "a": []}
        assert run.points("b", limit=1).value.tolist() == [8]


@pytest.mark.parametrize("answer", [Answer(), Answer(unchanged=True), Answer("x")])
def test_a_start_gets_an_error_of_an_empty_answer(answer):
    with answering(lambda *_: answer) as connection, pytest.raises(RemoteError):
        HttpRemote(connection).opening(RunKey("p", "r"), 5.0)

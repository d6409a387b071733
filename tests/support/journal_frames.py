"""Frames of a journal in few words, for tests of its writer."""

from __future__ import annotations

import json

from journals import Kind, points_in


def kinds(frames):
    return " ".join(Kind(frame.kind).name.lower() for frame in frames)


def ops(frames):
    return [json.loads(frame.payload) for frame in frames if frame.kind == Kind.OP]


def texts(frames):
    return [op["text"] for op in ops(frames)]


def points(frames):
    return [(path, point.step, point.value) for path, point in points_in(frames)]


def rows(frames):
    return sum(frame.kind in (Kind.ROW, Kind.SPARSE) for frame in frames)


def told(frames):
    """Return the counts of lost records that the journal holds, in order."""
    ends = (Kind.HEARTBEAT, Kind.CLOSE)
    return [
        json.loads(one.payload)["dropped"] for one in frames if one.kind in ends and one.payload
    ]


def header(frames):
    assert frames[0].kind == Kind.HEADER
    return json.loads(frames[0].payload)


def say(writer, *words):
    return writer.append_ops([{"op": "log", "text": word} for word in words])

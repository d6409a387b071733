"""Every append says whether its bytes are in the kernel; nobody has to look at the file."""

from __future__ import annotations

import numpy as np
import pytest

CLEAR = {"op": "clear", "path": "x"}


@pytest.fixture(
    params={
        "row": lambda writer: writer.append_row({"a": 1.0, "b": 2}, 3),
        "odd row": lambda writer: writer.append_row({"a": np.float32(1), "c": "no number"}, 3),
        "numbered row": lambda writer: writer.append_row({"a": 1.0}),
        "timed row": lambda writer: writer.append_row({"a": 1.0}, 3, 10**18),
        "point": lambda writer: writer.append_row({"p": 1.0}),
        "column": lambda writer: writer.append_column("c/c", [1.0, 2.0]),
        "op": lambda writer: writer.append_op(CLEAR),
        "ops": lambda writer: writer.append_ops([CLEAR] * 3),
    }.items(),
    ids=lambda way: way[0].replace(" ", "-"),
)
def append(request):
    return request.param[1]


def size(folder):
    return sum(journal.path.stat().st_size for journal in folder.journals())


def test_true_means_in_the_kernel_and_false_not_yet(writer, disk, folder, append, monkeypatch):
    before = 0
    for _ in range(4):
        assert append(writer) is True
        assert size(folder) > before
        before = size(folder)
    disk.fill()
    assert append(writer) is False
    monkeypatch.setattr("seamark.journal.segment.MAX_RECORDS", 0)
    assert append(writer) is False
    assert writer.dropped["disk"] > 0
    assert size(folder) == before
    disk.free()
    assert append(writer) is True
    writer.close()
    assert append(writer) is False


def test_a_record_of_a_signal_handler_waits(writer, journals, append, disk, on_signal):
    append(writer)
    answers = []
    disk.before = on_signal(lambda: answers.append(append(writer)))
    assert writer.append_op({"op": "clear", "path": "interrupted"}) is True
    assert answers == [False]
    (frames,) = journals()
    assert b"interrupted" not in frames[-1].payload
    assert writer.is_idle


@pytest.mark.parametrize("metrics", [{}, {"a": "no"}, None, {"a//b": 1.0}], ids=repr)
def test_nothing_to_write_is_nothing_written(writer, metrics):
    assert writer.append_row(metrics, 0) is False
    assert writer.append_ops([]) is False
    assert writer.append_column("a", []) is False

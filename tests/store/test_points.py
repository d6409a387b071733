"""Points, texts, files and histograms: the same from chunks, from journals and from the oracle."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from bytes_source import BytesSource

from seamark.errors import ArgumentError
from seamark.journal.format import ZLIB, Kind
from seamark.store import ingest
from seamark.store.read import series


@pytest.fixture
def view(engines, store):
    """Return the reader of a run with a journal, as far as it is written now."""

    def look(journal):
        return engines.fold(store, "r", [journal])

    return look


def test_other_paths_have_no_points_and_other_attempts_are_refused(builder, view):
    look = view(builder().row({"a": 1.0}, 0).assign(b=1))
    assert len(look.points("b")) == len(look.points("nothing")) == 0
    for attempt in (-1, "newest", 1.5, True, None):
        with pytest.raises(ArgumentError, match="'latest', 'all', 'replaced' or the number"):
            look.points("a", attempt)


@pytest.mark.parametrize("small_bytes", [0, 1 << 30], ids=["chunks", "journals"])
def test_every_form_of_a_point_is_read(builder, view, monkeypatch, small_bytes):
    """Rows with and without the caller's time, compressed, sparse, and whole columns."""
    monkeypatch.setattr(ingest, "SMALL_BYTES", small_bytes)
    journal = builder().row({"a": 1.0, "b": 10.0}, 0).row({"a": 2.0, "b": 20.0}, 1, time=5)
    journal.row({"a": 3.0}, 2, packed=True).row({"a": 4.0}, 3, packed=True, time=6)
    journal.sparse({"b": 30.0, "a": 5.0}, 4).sparse({"a": 6.0}, 5, time=7)
    journal.column("a", [6, 7], [7.0, np.nan]).column("a", [8], [9.0], [8])
    journal.histograms("h", (0, [0, 1], [3])).histograms("h", (1, [0, 1], [4]))
    look = view(journal.close())
    found = look.points("a")
    assert found.step.tolist() == list(range(9))
    np.testing.assert_array_equal(found.value, [1, 2, 3, 4, 5, 6, 7, np.nan, 9])
    assert [time for time in found.time_ns.tolist() if time < 10] == [5, 6, 7, 8]
    assert look.points("b").value.tolist() == [10, 20, 30]
    assert look.last("h") == look.histograms("h")[-1]


def test_a_frame_with_fewer_bytes_than_points_is_read(builder, view, set_groups):
    """A compressed column, which is stored in several parts."""
    set_groups(300)
    journal = builder()
    column = struct.pack("<II", journal.number("a"), 2000) + bytes(16 * 2000)
    journal.frame(Kind.COLUMN, zlib.compress(column), flags=ZLIB).row({"a": 1.0}, 1)
    assert view(journal).points("a").step.tolist() == [0] * 2000 + [1]


def test_points_that_are_not_folded_are_not_read(builder, engines, store, view):
    """A reader shows the run at one moment, also while training goes on."""
    journal = builder().row({"a": 1.0}, 0)
    view(journal)
    live = {journal.file: lambda: BytesSource(journal.file, journal.data)}
    old = engines.reader_of(store, "r", live)
    journal.row({"a": 2.0}, 1)
    assert len(old.points("a")) == 1
    assert len(view(journal).points("a")) == 2


def test_a_series_in_parts_is_begun_anew_when_points_are_hidden(builder, engines, view, set_groups):
    """Points that come behind what was read are read; a new attempt that hides some is told."""
    set_groups(4)
    first = builder(attempt=0, rank=0)
    for step in range(10):
        first.row({"a": float(step)}, float(step))
    part, begins, after = view(first).points_part("a", most=6)
    assert (part.step.tolist(), begins) == ([0, 1, 2, 3, 4, 5], True)
    look = view(first.row({"a": 10.0}, 10.0))
    rest, begins, end = look.points_part("a", most=6, after=after)
    assert (rest.step.tolist(), begins, end) == ([6, 7, 8, 9, 10], False, None)
    cleared = look.points_part("a", most=6, after=after._replace(hidden=after.hidden + 1))
    assert (cleared.points.step.tolist(), cleared.begins) == ([0, 1, 2, 3, 4, 5], True)
    look = view(first.op("clear", path="a").row({"a": 11.0}, 11.0))
    again = look.points_part("a", most=6, after=after)
    assert (again.points.step.tolist(), again.begins, again.end) == ([11.0], True, None)
    assert engines.in_parts(look, "a", "latest", 2) == engines.rows(look.points("a"))


def test_only_the_groups_of_a_part_are_read(builder, engines, view, set_groups, monkeypatch):
    set_groups(10)
    long = builder()
    for step in range(100):
        long.row({"a": float(step)}, float(step))
    look, read, real = view(long), [], series.load_group
    monkeypatch.setattr(series, "load_group", lambda *at: read.append(at) or real(*at))
    part, _, after = look.points_part("a", most=15)
    assert (len(part), len(read)) == (15, 2)
    look.points_part("a", most=15, after=after)
    assert len(read) <= 5
    assert len(engines.in_parts(look, "a", "latest", 15)) == 100

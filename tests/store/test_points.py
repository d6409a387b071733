"""Points, texts, files and histograms: the same from chunks, from journals and from the oracle."""

from __future__ import annotations

import struct
import zlib
from functools import partial

import numpy as np
import pytest
from bytes_source import BytesSource
from journal_builder import fold_run

from seamark.errors import ArgumentError
from seamark.index.index import Index
from seamark.journal.format import ZLIB, Kind
from seamark.store import groups, ingest
from seamark.store.read import series
from seamark.store.read.run import RunReader


@pytest.fixture(params=["index", "postgresql"])
def view(request, folder):
    """Return the run as it is in the journals now: of the index, or of a store on PostgreSQL."""
    if request.param == "postgresql":
        yield request.getfixturevalue("view_on_postgresql")
        return
    opened = []

    def look():
        if not opened:
            opened.append(Index.open(folder.root))
        opened[0].refresh(folder.project, folder.run)
        return opened[0].view(folder.project, folder.run)

    yield look
    for index in opened:
        index.close()


@pytest.fixture
def view_on_postgresql(engines, postgresql, tmp_path, folder):
    with engines.fresh_tables("postgresql", tmp_path, postgresql) as url:
        store = engines.open_store(url)

        def look():
            data = {each.path.name: each.path.read_bytes() for each in folder.journals()}
            sources = {name: partial(BytesSource, name, one) for name, one in data.items()}
            fold_run(store, folder.project, folder.run, sources, lambda: 0)
            return RunReader(
                lambda: store,
                folder.project,
                folder.run,
                lambda name: sources[name](),
                now_ns=lambda: 0,
            )

        yield look
        store.database.engine.dispose()


def rows(points):
    return list(
        zip(
            points.step.tolist(),
            points.value.tolist(),
            points.time_ns.tolist(),
            points.attempt.tolist(),
            strict=True,
        )
    )


def in_parts(view, path, attempt, most, last=None):
    """Return the rows of a series that is read part by part."""
    found, after = [], None
    while True:
        part, begins, after = view.points_part(path, attempt, most=most, after=after, last=last)
        assert len(part) <= most
        assert begins == (not found)
        found += rows(part)
        if after is None:
            return found


@pytest.mark.parametrize("attempt", [-1, "newest", 1.5, True, None])
def test_an_attempt_that_cannot_be_one_is_refused(builder, folder, view, attempt):
    """The message names what can be given."""
    builder().row({"a": 1.0}, 0).save(folder)
    with pytest.raises(ArgumentError, match="'latest', 'all', 'replaced' or the number"):
        view().points("a", attempt)


def test_a_path_that_is_no_series_has_no_points(builder, folder, view):
    """An empty array of every column, no error."""
    builder().assign(a=1).save(folder)
    assert len(view().points("a")) == len(view().points("nothing")) == 0


@pytest.mark.parametrize("small_bytes", [0, 1 << 30], ids=["chunks", "journals"])
def test_every_form_of_a_point_is_read(builder, folder, view, monkeypatch, small_bytes):
    """Rows with and without the caller's time, compressed, sparse, and whole columns."""
    monkeypatch.setattr(ingest, "SMALL_BYTES", small_bytes)
    journal = builder().row({"a": 1.0, "b": 10.0}, 0).row({"a": 2.0, "b": 20.0}, 1, time=5)
    journal.row({"a": 3.0}, 2, packed=True).row({"a": 4.0}, 3, packed=True, time=6)
    journal.sparse({"b": 30.0, "a": 5.0}, 4).sparse({"a": 6.0}, 5, time=7)
    journal.column("a", [6, 7], [7.0, np.nan]).column("a", [8], [9.0], [8])
    journal.histograms("h", (0, [0, 1], [3])).histograms("h", (1, [0, 1], [4])).close()
    journal.save(folder)
    found = view().points("a")
    assert found.step.tolist() == list(range(9))
    np.testing.assert_array_equal(found.value, [1, 2, 3, 4, 5, 6, 7, np.nan, 9])
    assert [time for time in found.time_ns.tolist() if time < 10] == [5, 6, 7, 8]
    assert view().points("b").value.tolist() == [10, 20, 30]
    assert view().last("h") == view().histograms("h")[-1]


def test_a_frame_with_fewer_bytes_than_points_is_read(builder, folder, view, monkeypatch):
    """A compressed column, which is stored in several parts."""
    monkeypatch.setattr(ingest, "SMALL_BYTES", 0)
    monkeypatch.setattr(groups, "GROUP_ROWS", 300)
    journal = builder()
    column = struct.pack("<II", journal.number("a"), 2000) + bytes(16 * 2000)
    journal.frame(Kind.COLUMN, zlib.compress(column), flags=ZLIB).row({"a": 1.0}, 1).save(folder)
    assert view().points("a").step.tolist() == [0] * 2000 + [1]


def test_points_that_a_view_does_not_know_are_not_read(builder, folder, view):
    """A view is the run at one moment, also while training goes on."""
    journal = builder().row({"a": 1.0}, 0)
    journal.save(folder)
    old = view()
    journal.row({"a": 2.0}, 1).save(folder)
    assert len(old.points("a")) == 1
    assert len(view().points("a")) == 2


def test_a_series_in_parts_is_begun_anew_when_points_are_hidden(builder, folder, view, monkeypatch):
    """Points that come behind what was read are read; a new attempt that hides some is told."""
    monkeypatch.setattr(ingest, "SMALL_BYTES", 0)
    monkeypatch.setattr(groups, "GROUP_ROWS", 4)
    first = builder(attempt=0, rank=0)
    for step in range(10):
        first.row({"a": float(step)}, float(step))
    first.save(folder)
    part, begins, after = view().points_part("a", most=6)
    assert begins
    assert part.step.tolist() == [0, 1, 2, 3, 4, 5]
    first.row({"a": 10.0}, 10.0).save(folder)
    rest, begins, end = view().points_part("a", most=6, after=after)
    assert (rest.step.tolist(), begins, end) == ([6, 7, 8, 9, 10], False, None)
    cleared = view().points_part("a", most=6, after=after._replace(hidden=after.hidden + 1))
    assert (cleared.points.step.tolist(), cleared.begins) == ([0, 1, 2, 3, 4, 5], True)
    first.op("clear", path="a").row({"a": 11.0}, 11.0).save(folder)
    again = view().points_part("a", most=6, after=after)
    assert (again.points.step.tolist(), again.begins, again.end) == ([11.0], True, None)
    assert in_parts(view(), "a", "latest", 2) == rows(view().points("a"))


def test_of_a_long_series_only_the_groups_of_a_part_are_read(builder, folder, view, monkeypatch):
    """However long it is."""
    monkeypatch.setattr(ingest, "SMALL_BYTES", 0)
    monkeypatch.setattr(ingest, "CHUNK_BYTES", 0)
    monkeypatch.setattr(groups, "GROUP_ROWS", 10)
    long = builder()
    for step in range(400):
        long.row({"a": float(step)}, float(step))
    long.save(folder)
    look = view()
    read = []
    real = series.load_group
    monkeypatch.setattr(series, "load_group", lambda *at: read.append(at) or real(*at))
    part, _, after = look.points_part("a", most=15)
    assert (len(part), len(read)) == (15, 2)
    look.points_part("a", most=15, after=after)
    assert len(read) <= 5
    assert len(in_parts(look, "a", "latest", 15)) == 400

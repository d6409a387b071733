"""Numbers of paths: there are as many as strangers send, and a process keeps some in memory."""

from __future__ import annotations

import contextlib
import errno

import pytest

from seamark.store import schema
from seamark.store.schema import PathNumbers


@pytest.mark.parametrize("most_bytes", [0, 5_000])
def test_numbers_of_paths_are_those_of_the_table_however_few_are_kept(
    store, most_bytes, monkeypatch
):
    monkeypatch.setattr(schema, "MOST_BYTES", most_bytes)
    numbers = PathNumbers(store.database)
    wanted = [f"p/{number}" for number in range(600)]
    given = numbers.ensure(wanted)
    assert sorted(given) == sorted(wanted)
    assert len(set(given.values())) == len(wanted)
    assert numbers.ensure(reversed(wanted)) == given
    with store.database.reading() as connection:
        asked = [wanted[350], "none", wanted[3], "nor this", wanted[599]]
        assert list(numbers.known(connection, asked).items()) == [
            (path, given[path]) for path in asked if path in given
        ]
        assert numbers.number(connection, wanted[5]) == given[wanted[5]]
        assert numbers.number(connection, "none") is None
        back = [given[path] for path in wanted]
        assert numbers.paths(connection, [*back, -1]) == dict(zip(back, wanted, strict=True))
        assert numbers.everything(connection) == given


def test_paths_in_memory_are_bounded_by_their_size(store, monkeypatch):
    monkeypatch.setattr(schema, "MOST_BYTES", 60_000)
    numbers = PathNumbers(store.database)
    for start in range(0, 3000, 100):
        numbers.ensure(f"short/{number}" for number in range(start, start + 100))
        assert len(numbers) <= 60_000 // 250
    numbers.ensure(f"long/{'x' * 1000}/{number}" for number in range(200))
    assert len(numbers) <= 60_000 // 1250 + 1
    with store.database.reading() as connection:
        assert len(numbers.everything(connection)) == 3200
    assert len(numbers) <= 60_000 // 250


def test_a_number_that_was_never_written_is_not_kept(store, monkeypatch):
    numbers = PathNumbers(store.database)
    numbers.ensure(["first"])
    writing = store.database.writing

    @contextlib.contextmanager
    def fail():
        with writing() as connection:
            yield connection
            raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(store.database, "writing", fail)
        with pytest.raises(OSError, match="no space"):
            numbers.ensure(["lost"])
    given = PathNumbers(store.database).ensure(["another"]) | numbers.ensure(["lost"])
    assert len(set(given.values())) == 2
    with store.database.reading() as connection:
        assert numbers.everything(connection).items() >= given.items()
        assert numbers.paths(connection, list(given.values())) == {
            number: path for path, number in given.items()
        }

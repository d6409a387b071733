"""Folding and reading the same runs at the same time, on both engines."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import sqlalchemy as sa

from seamark.store import runs, schema
from seamark.store.database import Conflict, retry
from seamark.store.ingest import Folding
from seamark.store.runs import forget_run, load_run

ON_BOTH = pytest.mark.parametrize(
    ("tables", "options"),
    [
        ("sqlite", {}),
        ("postgresql", {}),
        ("postgresql", {"isolation_level": "SERIALIZABLE"}),
    ],
    indirect=["tables"],
    ids=["sqlite", "postgresql", "serializable"],
)
"""However strictly a database keeps transactions apart; SQLite has one way only."""
ON_POSTGRESQL = pytest.mark.parametrize("tables", ["postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def _small_groups(set_groups):
    """Groups of a few rows, so that many are written and the last is often made anew."""
    set_groups(16, 500)


def started(work, count):
    """Run a function in so many threads at once; raise the error of the first that has one."""
    barrier = threading.Barrier(count)

    def one(at):
        barrier.wait(30)
        work(at)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, range(count)))


def save_meanwhile(store, found, work):
    """Save a run, run a function in a thread in the middle of it, and return its future."""
    begun = []
    with ThreadPoolExecutor(1) as pool:

        def begin(_connection):
            begun.append(pool.submit(work))
            wait_for_lock(store, begun[0])

        found.save(more=begin)
    return begun[0]


def history(builder):
    """Two journals with rows, texts, atoms and a delete in between."""
    one, two = builder("one", t=1000), builder("two", t=1500, attempt=None)
    for step in range(60):
        one.row({"a": float(step), "b": 1.0}, step).assign(epoch=step)
        two.texts("log", (step, f"line {step}")).row({"c": float(step)}, step)
        if step == 40:
            two.op("delete", paths=["b"]).op("add", path="sys/tags", values=["late"])
    return [one, two]


@pytest.fixture
def check(engines, oracle, property_test):
    """Return what compares a run with the oracle: nothing is counted twice, nothing is lost.

    And nothing is written where it is folded once more.
    """

    def compare(store, run, journals):
        ends = [journal.offset for journal in journals]
        with store.database.reading() as connection:
            stored = load_run(store, connection, engines.PROJECT, run)
            stored.state.attributes = runs.load_attributes(
                store, connection, stored.number, stored.state.journals.values()
            )
        found = property_test.shown(stored.state)
        assert property_test.same(found, oracle.expected(journals, ends))
        view = engines.fold(store, run, journals)
        with store.database.reading() as connection:
            assert load_run(store, connection, engines.PROJECT, run).version == stored.version
        for path in ("a", "b", "c"):
            points = view.points(path)
            wanted = [point[:2] for point in oracle.expected_points(journals, ends, path)]
            assert list(zip(points.step.tolist(), points.value.tolist(), strict=True)) == wanted
        assert len(view.texts("log")) == 60

    return compare


@ON_BOTH
def test_threads_that_fold_one_run_count_everything_once(
    builder, engines, open_store, check, options
):
    journals = history(builder)
    stores = [open_store(**options) for _ in range(3)]

    def work(at):
        for end in range(4, len(journals[0].ends), 9 + at):
            ends = [journal.ends[min(end, len(journal.ends) - 1)] for journal in journals]
            there = [max(ends[0], journals[0].ends[0]), ends[1]]
            retry(lambda there=there: engines.fold(stores[at], "r", journals, there))
        retry(lambda: engines.fold(stores[at], "r", journals))

    started(work, 3)
    check(stores[0], "r", journals)


@pytest.mark.parametrize("known", [False, True], ids=["new", "known"])
@ON_BOTH
def test_saving_while_another_saves_is_a_conflict(
    builder, engines, open_store, check, options, known
):
    """Both are in the middle of it: a row that waits, a unique key, or a serialization failure."""
    journals, stores = history(builder), [open_store(**options) for _ in range(2)]
    sources = engines.sources_of(journals)
    if known:
        engines.fold(stores[0], "r", journals, [journal.ends[9] for journal in journals])
    one, two = (folding(engines, store, sources) for store in stores)
    done = save_meanwhile(stores[0], one, two.save)
    assert isinstance(done.exception(60), Conflict)
    engines.fold(stores[1], "r", journals)
    check(stores[1], "r", journals)


def folding(engines, store, sources):
    found = Folding(store, engines.PROJECT, "r", lambda name: sources[name](), lambda: 0)
    found.add_journals({bytes.fromhex(name[-32:]): name for name in sources})
    found.fold()
    return found


def wait_for_lock(store, done):
    """Wait until another transaction waits for this one; SQLite lets nobody look into that."""
    if store.database.dialect == "sqlite":
        wait([done], 0.2)
        return
    waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while not done.done():
        with store.database.engine.connect() as connection:
            if connection.execute(waits).scalar_one():
                return


@ON_POSTGRESQL
def test_a_deadlock_is_a_conflict(store):
    with store.database.writing() as connection:
        connection.execute(sa.insert(schema.meta), [{"key": key, "value": ""} for key in "ab"])
    troubles, barrier = [], threading.Barrier(2)

    def work(first, second):
        try:
            with store.database.writing() as connection:
                for key in (first, second):
                    row = schema.meta.c.key == key
                    connection.execute(sa.update(schema.meta).where(row).values(value=first))
                    if key == first:
                        barrier.wait(30)
        except Conflict as error:
            troubles.append(error)

    started(lambda at: work(*("ab", "ba")[at]), 2)
    assert len(troubles) == 1


def test_a_run_that_is_forgotten_while_it_is_saved_leaves_nothing(builder, engines, open_store):
    journals, stores = history(builder), [open_store() for _ in range(2)]
    engines.fold(stores[0], "r", journals, [journal.ends[9] for journal in journals])
    one = folding(engines, stores[0], engines.sources_of(journals))
    number = one.run.number

    def forget():
        with stores[1].database.writing() as connection:
            forget_run(stores[1], connection, number)

    save_meanwhile(stores[0], one, forget)
    assert set(engines.count_rows(stores[0], number).values()) == {0}
    late = folding(engines, stores[0], engines.sources_of(journals))
    assert late.is_new


def test_paths_that_several_add_at_once_have_one_number(open_store):
    stores = [open_store() for _ in range(4)]
    found = [{} for _ in stores]

    def work(at):
        for start in range(0, 200, 20):
            wanted = [f"p/{(start + 7 * at + place) % 230}" for place in range(60)]
            found[at] |= stores[at].numbers.ensure(reversed(wanted) if at % 2 else wanted)

    started(work, 4)
    merged = {}
    for one in found:
        for path, number in one.items():
            assert merged.setdefault(path, number) == number
    assert len(set(merged.values())) == len(merged)


@ON_POSTGRESQL
def test_tables_that_several_processes_make_at_once_are_made_once(open_store):
    stores = [open_store() for _ in range(4)]
    with stores[0].database.writing() as connection:
        schema.metadata.drop_all(connection)
    started(lambda at: stores[at].database.create_tables(schema.metadata), 4)
    assert stores[0].numbers.ensure(["a"])


@ON_POSTGRESQL
def test_a_connection_that_is_cut_costs_one_call(builder, engines, store, tables):
    """As when the server restarts; the next one is made anew."""
    journals = history(builder)
    engines.fold(store, "r", journals)
    with store.database.engine.connect() as connection:
        backend = connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one()
    other = sa.create_engine(tables, poolclass=sa.NullPool)
    with other.connect() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": backend})
    with pytest.raises(Exception, match=r"terminat|clos|lost"):
        engines.look(store, "r", journals).attributes()
    assert engines.look(store, "r", journals).attribute("a").value.count == 60

"""The thread that reads the folders of a page: how often, and in which order."""

from __future__ import annotations

import pytest
from page_process import until
from recording import QUIET

from seamark import init_run
from seamark.index.index import Index
from seamark.page.roots import Root, named_roots
from seamark.page.watch import (
    CALM_S,
    FORGET_S,
    IDLE_S,
    PAUSE_S,
    QUICK_S,
    SHARE,
    SHOWN_S,
    Looked,
    Looker,
    Watcher,
)


class SlowIndex:
    """An index where each look takes as long as a test says, on a clock."""

    def __init__(self, index):
        self.index = index
        self.now = 1000.0
        self.takes_s = self.one_takes_s = self.cpu_s = self.cpu = 0.0
        self.asked = []
        """The runs that were looked at; none for a look at all."""

    def __getattr__(self, name):
        return getattr(self.index, name)

    def refresh(self, project=None, run=None, *, progress=None):
        self.asked.append(run)
        self.now += self.takes_s if run is None else self.one_takes_s
        self.cpu += self.cpu_s if run is None else 0.0
        return self.index.refresh(project, run, progress=progress)


@pytest.fixture
def root(tmp_path):
    return tmp_path / ".seamark"


@pytest.fixture
def clock(root):
    """The index of a looker, with the time that it goes by."""
    with Index.open(root) as index:
        yield SlowIndex(index)


@pytest.fixture
def looker(clock):
    """A looker on a clock, and what it says."""
    said: list[Looked] = []
    made = Looker(clock, said.append, lambda: clock.now, lambda: clock.cpu)
    made.said = said
    return made


def begin(root, project="demo", **given):
    return init_run(project, root=root, **{**QUIET, **given})


def record(root, **given):
    run = begin(root, **given)
    run.log_metrics({"loss": 0.5}, step=0)
    run.stop()
    return run


def test_polls_cost_no_looks_of_their_own(root, clock, looker):
    """There is one look after each pause, however many tabs ask, and a rare one with none."""
    record(root)
    looker.step()
    assert (looker.looks, looker.said[-1].runs, looker.said[-1].left) == (1, 1, 0)
    for _ in range(5):
        looker.note_request()
        looker.step()
    assert looker.looks == 1
    for _ in range(10):
        for _ in range(5):
            looker.note_request()
            looker.step()
        clock.now += PAUSE_S / 2
    assert looker.looks == 5
    looks, began = looker.looks, clock.now
    while clock.now < began + FORGET_S + 10 * IDLE_S:  # nobody asks any more
        clock.now += PAUSE_S / 2
        looker.step()
    assert looker.looks - looks <= FORGET_S / PAUSE_S + 10
    looks = looker.looks
    looker.note_request()
    looker.step()
    assert looker.looks == looks + 1  # who comes back is shown what is new at once


def test_looks_that_take_long_are_rare(root, clock, looker):
    done = record(root)
    run = begin(root)
    clock.takes_s = 3.0
    looker.step()
    began = clock.now
    for step in range(100):
        clock.now += 0.5
        looker.note_request()
        run.log_metrics({"loss": 1.0}, step=step)
        looker.step()
    assert looker.looks == 1 + int((clock.now - began) / (3.0 * (SHARE + 1)))
    assert 20 <= looker.quick <= 25  # of the one that runs, every two seconds
    assert clock.view("demo", run.id).attribute("loss").value.count > 90
    assert {done.id, run.id} == {name for _, name in clock.runs()}
    run.stop()


def test_while_nothing_runs_looks_take_a_hundredth_of_a_core(root, clock, looker):
    record(root)
    clock.cpu_s = 0.07

    def looks_in(seconds):
        looks, end = looker.looks, clock.now + seconds
        while clock.now < end:
            clock.now += 0.25
            looker.note_request()
            looker.step()
        return looker.looks - looks

    looker.step()
    assert looks_in(70.0) == 10
    clock.cpu_s = 9.0
    assert 9 <= looks_in(10 * CALM_S) <= 10
    run = begin(root)
    assert looks_in(CALM_S) >= 1
    assert looks_in(10 * PAUSE_S) >= 9
    run.stop()


@pytest.fixture
def many(root, clock):
    """Thirty runs that go on, for which there is no time at once."""
    runs = [begin(root) for _ in range(30)]
    clock.takes_s, clock.one_takes_s = 1000.0, 0.3 * QUICK_S
    yield [run.id for run in runs]
    for run in runs:
        run.stop()


def test_runs_that_are_drawn_are_looked_at_first(many, clock, looker):
    looker.step()

    def go():
        looker.note_request()
        clock.now = looker.due()
        clock.asked.clear()
        looker.step()
        return list(clock.asked)

    first, second = many[7], many[29]
    looker.shown([("demo", first), ("demo", "gone")])
    looker.shown([("demo", second)])
    for _ in range(10):
        assert set(go()[:2]) == {first, second}
    began = clock.now
    while clock.now < began + SHOWN_S:
        looker.shown([("demo", second)])
        assert second in go()[:2]
    seen = [go() for _ in range(29)]
    assert {one[0] for one in seen} == {second}
    assert {run for one in seen for run in one} == set(many)
    assert len({one[1] for one in seen[:5]}) == 5


def test_a_look_can_be_asked_for(root, clock, looker):
    looker.step()
    record(root)
    looker.step()
    assert looker.said[-1].runs == 0
    looker.look_now()
    clock.takes_s = 7.0
    looker.step()
    assert (looker.said[-1].runs, looker.looks) == (1, 2)
    looker.look_now()  # of a look that takes long, there is a pause as long
    assert looker.due() == clock.now + 7.0
    run = record(root)
    looker.look_now([("demo", run.id), ("demo", "gone")])  # one that was edited does not wait
    looker.step()
    assert (looker.looks, looker.quick) == (2, 2)
    assert ("demo", run.id) in clock.runs()


def test_a_look_that_fails_says_why_and_is_tried_again(clock, looker, monkeypatch):
    looker.step()
    looked_ns = looker.said[-1].looked_ns

    def failing(*_, **__):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(clock, "refresh", failing)
        looker.look_now()
        looker.step()
    assert "Input/output error" in looker.said[-1].trouble
    assert looker.said[-1].looked_ns == looked_ns > 0
    looker.look_now()
    looker.step()
    assert looker.said[-1].trouble == ""
    assert looker.said[-1].looked_ns > looked_ns


def test_the_thread_reads_what_is_new_and_ends_with_the_page(root):
    record(root)
    watcher = Watcher([Root("one", root), Root("none", root.parent / "none")])
    watcher.start()
    try:
        assert watcher.wait_for_roots(60)
        until(lambda: watcher.looked(0).looked_ns)
        assert watcher.looked(0).runs == 1
        assert watcher.looked(1).runs == 0
        record(root)
        watcher.lookers[0].look_now()
        until(lambda: watcher.looked(0).runs == 2)
        watcher.lookers[0].rebuild()
        record(root)
        until(lambda: watcher.looked(0).runs == 3)
    finally:
        watcher.stop()
    assert not watcher._thread.is_alive()
    watcher.stop()


def test_roots_have_names_that_tell_them_apart(tmp_path):
    places = [tmp_path / one for one in ("a/x/.seamark", "b/x/.seamark", "c", "c/../c")]
    for place in places[:3]:
        place.mkdir(parents=True)
    assert [one.name for one in named_roots(places)] == ["a/x", "b/x", f"{tmp_path.name}/c"]
    assert [one.name for one in named_roots(places[:1])] == ["x"]
    assert [one.path for one in named_roots(places)] == [*places[:3]]
    (tmp_path / "c/.seamark").mkdir()
    names = [one.name for one in named_roots([tmp_path / "c", tmp_path / "c/.seamark"])]
    assert len(set(names)) == 2

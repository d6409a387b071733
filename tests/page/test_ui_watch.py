"""What looks at the folders of a page: how often, and that it is always there."""

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


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class SlowIndex:
    """An index where each look takes as long as a test says, on a clock."""

    def __init__(self, index, clock):
        self.index, self.clock = index, clock
        self.takes_s = self.one_takes_s = self.cpu_s = self.cpu = 0.0

    def __getattr__(self, name):
        return getattr(self.index, name)

    def refresh(self, project=None, run=None, *, progress=None):
        self.clock.now += self.takes_s if run is None else self.one_takes_s
        self.cpu += self.cpu_s if run is None else 0.0
        return self.index.refresh(project, run, progress=progress)


@pytest.fixture
def root(tmp_path):
    return tmp_path / ".seamark"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def looker(root, clock):
    """A looker on a clock, the index that it asks, and what it says."""
    with Index.open(root) as index:
        said: list[Looked] = []
        slow = SlowIndex(index, clock)
        made = Looker(slow, said.append, clock, lambda: slow.cpu)
        made.index, made.said = slow, said
        yield made


def begin(root, project="demo", **given):
    return init_run(project, root=root, **{**QUIET, **given})


def record(root, **given):
    run = begin(root, **given)
    run.log_metrics({"loss": 0.5}, step=0)
    run.stop()
    return run


def test_polls_cost_no_looks_of_their_own(root, clock, looker):
    """However many tabs ask, there is one look after each pause; with none, it is a rare one."""
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
    """Looking takes a twentieth of the time at most; what is running is seen meanwhile."""
    done = record(root)
    run = begin(root)
    looker.index.takes_s = 3.0
    looker.step()
    began = clock.now
    for step in range(100):
        clock.now += 0.5
        looker.note_request()
        run.log_metrics({"loss": 1.0}, step=step)
        looker.step()
    assert looker.looks == 1 + int((clock.now - began) / (3.0 * (SHARE + 1)))
    assert 20 <= looker.quick <= 25  # of the one that runs, every two seconds
    view = looker.index.view("demo", run.id)
    assert view.attribute("loss").value.count > 90
    assert {done.id, run.id} == {name for _, name in looker.index.runs()}
    run.stop()


def test_while_nothing_runs_looks_take_a_hundredth_of_a_core(root, clock, looker):
    """Tabs that are left open cost little, however many runs there are; a training is seen soon."""
    record(root)
    looker.index.cpu_s = 0.07

    def looks_in(seconds):
        looks, end = looker.looks, clock.now + seconds
        while clock.now < end:
            clock.now += 0.25
            looker.note_request()
            looker.step()
        return looker.looks - looks

    looker.step()
    assert looks_in(70.0) == 10
    looker.index.cpu_s = 9.0  # what is new is to be seen all the same
    assert 9 <= looks_in(10 * CALM_S) <= 10
    run = begin(root)
    assert looks_in(CALM_S) >= 1
    assert looks_in(10 * PAUSE_S) >= 9
    run.stop()


def noted(looker) -> list[str | None]:
    """Return a list to which the id of each run is added that is looked at from now on."""
    asked: list[str | None] = []
    refresh = looker.index.refresh

    def noting(project=None, run=None, **rest):
        asked.append(run)
        return refresh(project, run, **rest)

    looker.index.refresh = noting
    return asked


def test_runs_that_are_drawn_come_first_and_all_get_their_turn(root, clock, looker):
    """Of many that run, as many are looked at as there is time for, and the next ones then."""
    runs = [begin(root) for _ in range(6)]
    looker.index.takes_s, looker.index.one_takes_s = 100.0, 0.6 * QUICK_S
    looker.step()
    asked = noted(looker)
    drawn = runs[0].id
    for _ in range(5):
        looker.shown([("demo", drawn), ("demo", "gone")])
        clock.now = looker.due()
        looker.step()
    assert asked[::2] == [drawn] * 5
    assert sorted(asked[1::2]) == sorted(run.id for run in runs[1:])
    for run in runs:
        run.stop()


def test_what_several_tabs_draw_is_looked_at_until_it_is_let_go(root, clock, looker, monkeypatch):
    """One tab's runs stay beside another's; what nobody asks for any more waits as others do."""
    runs = [begin(root) for _ in range(30)]
    looker.index.takes_s, looker.index.one_takes_s = 1000.0, 0.3 * QUICK_S
    looker.step()
    asked = noted(looker)

    def go():
        looker.note_request()
        clock.now = looker.due()
        asked.clear()
        looker.step()
        return list(asked)

    first, second = runs[7].id, runs[29].id
    looker.shown([("demo", first)])
    looker.shown([("demo", second)])
    for _ in range(10):
        assert set(go()[:2]) == {first, second}
    began = clock.now
    while clock.now < began + SHOWN_S:
        looker.shown([("demo", second)])
        assert second in go()[:2]
    seen = [go()[:2] for _ in range(5)]
    assert all(one[0] == second != one[1] for one in seen)
    assert len({one[1] for one in seen}) == 5  # turns, which the one that was let go of has, too
    monkeypatch.setattr("seamark.page.watch.MOST_SHOWN", 3)
    looker.shown([("demo", run.id) for run in runs])
    assert list(looker._shown) == [("demo", run.id) for run in runs[27:]]
    for run in runs:
        run.stop()


def test_looking_can_be_asked_for(root, clock, looker):
    """Who has edited something, or says so, waits for no pause."""
    looker.step()
    record(root)
    looker.step()
    assert looker.said[-1].runs == 0
    looker.look_now()
    looker.index.takes_s = 7.0
    looker.step()
    assert (looker.said[-1].runs, looker.looks) == (1, 2)
    looker.look_now()  # of a look that takes long, there is a pause as long
    assert looker.due() == clock.now + 7.0
    run = record(root)
    looker.look_now([("demo", run.id), ("demo", "gone")])  # one that was edited does not wait
    looker.step()
    assert (looker.looks, looker.quick) == (2, 2)
    assert ("demo", run.id) in looker.index.runs()


def test_what_cannot_be_looked_at_is_said_and_tried_again(root, clock, looker):
    """A look that fails leaves the age of the last one, and says why."""
    looker.step()
    looked_ns = looker.said[-1].looked_ns
    refresh = looker.index.refresh

    def failing(*_, **__):
        raise OSError(5, "Input/output error")

    looker.index.refresh = failing
    looker.look_now()
    looker.step()
    assert "Input/output error" in looker.said[-1].trouble
    assert looker.said[-1].looked_ns == looked_ns > 0
    looker.index.refresh = refresh
    looker.look_now()
    looker.step()
    assert looker.said[-1].trouble == ""
    assert looker.said[-1].looked_ns > looked_ns


def test_how_many_runs_are_left_is_said_while_they_are_read(root, looker):
    """Each batch of the first fold is in the index, and counted, before the next is read."""
    for _ in range(3):
        record(root)
    looker.step()
    assert looker.said[0].looked_ns == 0
    assert next(one.left for one in looker.said if one.left) == 3
    assert (looker.said[-1].left, looker.said[-1].runs) == (0, 3)


def test_the_thread_folds_what_is_new_and_is_told_what_is_wanted(root):
    """It begins when it is started, does not wait where somebody asks, and ends with the page."""
    record(root)
    watcher = Watcher([Root("one", root), Root("none", root.parent / "none")])
    watcher.start()
    try:
        assert watcher.wait_for_roots(60)
        until(lambda: watcher.looked(0).looked_ns)
        assert watcher.looked(0).runs == 1
        assert watcher.looked(1).runs == 0
        record(root)
        watcher.look_now(0)
        until(lambda: watcher.looked(0).runs == 2)
        watcher.rebuild(0)
        record(root)
        until(lambda: watcher.looked(0).runs == 3)
    finally:
        watcher.stop()
    assert not watcher._thread.is_alive()
    watcher.stop()


def test_a_fold_that_takes_long_does_not_hold_up_the_end(root):
    """What is not saved by then is folded again by the next page."""
    for _ in range(3):
        record(root)
    watcher = Watcher([Root("one", root)])
    watcher._stopping = True
    with pytest.raises(SystemExit):
        watcher._lookers[0].step()


def test_roots_have_names_that_tell_them_apart(tmp_path):
    """The folder around ``.seamark``, with as much before it as is needed; each root once."""
    places = [tmp_path / one for one in ("a/x/.seamark", "b/x/.seamark", "c", "c/../c")]
    for place in places[:3]:
        place.mkdir(parents=True)
    assert [one.name for one in named_roots(places)] == ["a/x", "b/x", f"{tmp_path.name}/c"]
    assert [one.name for one in named_roots(places[:1])] == ["x"]
    assert [one.path for one in named_roots(places)] == [*places[:3]]
    (tmp_path / "c/.seamark").mkdir()
    names = [one.name for one in named_roots([tmp_path / "c", tmp_path / "c/.seamark"])]
    assert len(set(names)) == 2

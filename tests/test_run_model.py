"""Any deeds of several processes, some of which are killed, leave what a plain model says.

Each deed ends before the next one begins, whoever does it. So what the journals of a run say
together is what one journal would, in the order of the deeds: the oracle of the fold is asked about
that one. A plain value tells its state.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from typing import Any

import oracle
import pytest
from crew import RefusedError, crews
from journal_builder import JournalBuilder

pytestmark = pytest.mark.once

PROJECTS = ("team", "team/x", "team/x/y")
WORKERS = 3
PATHS = ("a", "a/b", "c", "c/d", "parameters/lr")
SERIES = ("a", "c/d", "loss", "loss")
STATES = ("running", "failed", "suspended", "interrupted", "completed")


@dataclass
class Container:
    """What must be known of one run."""

    project: str
    name: str
    book: JournalBuilder = field(default_factory=JournalBuilder)
    ever: dict[str, set[str]] = field(default_factory=dict)
    state: str | None = "running"
    """None: it had several owners at once; who wins is not this test's to say."""
    attempt: int = 0
    """The newest one."""
    points: list[tuple[int, int]] = field(default_factory=list)
    """Where the book has points of attempts, and of which."""

    def visible(self):
        return dict(oracle.expected([self.book], [self.book.offset]))

    def other(self, path, family):
        """Return whether somebody ever had another family there."""
        return bool(self.ever.get(path, set()) - {family})


@dataclass
class Held:
    """A run that a worker holds."""

    worker: int
    container: Container
    owner: bool = False
    attempt: int | None = None
    """The one that its points belong to; None: to none, as of an evaluation."""
    waits: bool = False
    """Whether it has not begun yet: its first point, or to be told so, begins it."""


def kind_of(value):
    names = {int: "int", float: "float", str: "string", bool: "bool", type(None): "null"}
    return names[type(value)]


class RunModel:
    """Three processes and what they do, beside what must come of it.

    A deed draws what it does; one of a run that is held gets the number of it and what holds it.
    """

    def __init__(self, crew, folder, seed):
        self.crew = crew
        self.draw = random.Random(seed)
        self.folder = folder
        self.root = folder / "root"
        self.caches = 0
        self.workers = [self.hire(self.root) for _ in range(WORKERS)]
        self.containers: list[Container] = []
        self.held: dict[int, Held] = {}
        self.saved: list[tuple[Container, int, dict[str, Any]]] = []
        self.at = 0
        self.told: list[str] = []

    def worker(self):
        return self.draw.randrange(WORKERS)

    def some_number(self):
        return self.draw.choice([0.0, -0.0, 0.5, self.draw.uniform(-9, 9)])

    def some_value(self):
        return self.draw.choice([self.draw.randrange(-9, 9), self.some_number(), True, "x", None])

    def some_step(self):
        return float(self.draw.randrange(-2, 9))

    def hire(self, root):
        self.caches += 1
        cache = self.folder / f"cache{self.caches}"
        cache.mkdir(parents=True)
        return self.crew.hire(root, cache)

    def do(self, worker, deed, *given):
        asked = self.workers[worker]
        self.told.append(f"{asked.pid} {deed} {given}")
        return asked.do(deed, *given)

    def attempt(self, worker, deed, *given):
        """Do what may be refused; return what it was refused with."""
        try:
            self.do(worker, deed, *given)
        except RefusedError as error:
            self.told[-1] += f" {error}"
            return error
        return None

    def step(self, deed):
        if deed not in DEEDS_OF_HELD:
            getattr(self, deed)()
        elif self.held:
            getattr(self, deed)(*self.draw.choice(list(self.held.items())))

    def hold(self, worker, container, **more):
        self.at += 1
        held = self.held[self.at] = Held(worker, container, **more)
        if held.owner:
            held.attempt = container.attempt
            self.goes_on(held, "running")

    def take(self, worker, deed, *given):
        """Do what gives a worker something more to hold."""
        return self.do(worker, deed, self.at + 1, *given)

    def begin(self):
        worker, project = self.worker(), self.draw.choice(PROJECTS)
        start = not self.containers or self.draw.random() < 0.5
        given = {"params": {"lr": 1}, "name": "one", "start": start}
        made = Container(project, self.take(worker, "begin", project, given))
        self.assigned(made, {"parameters/lr": 1, "sys/name": "one"})
        self.containers.append(made)
        self.hold(worker, made, owner=True)
        if not start:
            made.state, self.held[self.at].waits = "created", True

    def open(self):
        worker, run = self.worker(), self.draw.choice(self.containers)
        owner = self.draw.choice([False, False, True])
        self.take(worker, "open", run.project, run.name, owner)
        self.hold(worker, run, owner=owner)

    def goes_on(self, held, state):
        """Take it that an owner says what the state is."""
        run = held.container
        owners = [one for one in self.held.values() if one.container is run and one.owner]
        run.state = state if owners == [held] and run.state is not None else None

    def stop(self, at, held):
        self.do(held.worker, "stop", at)
        self.left(at, "completed")

    def left(self, at, state):
        held = self.held.pop(at)
        if held.owner and held.container.state == "running":
            held.container.state = state

    def set_state(self, at, held):
        state = self.draw.choice(STATES)
        error = self.attempt(held.worker, "set_state", at, state)
        assert bool(error) is not held.owner, error
        if held.owner:
            held.waits &= state != "running"
            self.goes_on(held, state)

    def leave(self):
        """A process ends, or is killed; another one takes its place."""
        worker, kill = self.worker(), self.draw.random() < 0.6
        was = self.workers[worker]
        self.told.append(f"{was.pid} {'killed' if kill else 'ended'}")
        (was.kill if kill else was.end)()
        self.workers[worker] = self.hire(self.root)
        for at in [at for at, one in self.held.items() if one.worker == worker]:
            self.left(at, "crashed" if kill else "completed")

    def assigned(self, container, values):
        for path in values:
            container.ever.setdefault(path, set()).add("atom")
        pairs = {path: [kind_of(value), value] for path, value in values.items()}
        container.book.op("assign", atoms=pairs)

    def write(self, at, held, family, path, deed, *given):
        """Do something at a path; return the book of the run if it was done."""
        container = held.container
        error = self.attempt(held.worker, deed, at, path, *given)
        if error:
            assert error.kind == "FamilyError", error
            assert container.other(path, family), error
            return None
        container.ever.setdefault(path, set()).add(family)
        return container.book

    def pointed(self, held):
        """Take it that a point was written, of the attempt of who holds the run."""
        run = held.container
        if held.owner:
            run.points.append((run.book.said[-1].offset, held.attempt))
        if held.waits:
            held.waits = False
            self.goes_on(held, "running")

    def assign(self, at, held):
        path, value = self.draw.choice(PATHS), self.some_value()
        if self.write(at, held, "atom", path, "assign", value):
            self.assigned(held.container, {path: value})

    def extend(self, at, held):
        path, step = self.draw.choice(SERIES), self.some_step()
        values = [self.some_number() for _ in range(self.draw.randint(1, 3))]
        steps = [step + each for each in range(len(values))]
        deed = ("append", values[0], step) if len(values) == 1 else ("extend", values, steps)
        if book := self.write(at, held, "float_series", path, *deed):
            book.column(path, steps, values)
            self.pointed(held)

    def row(self, at, held):
        step = self.some_step()
        row = {"loss": self.some_number(), "row/acc": self.some_number()}
        if held.container.other("loss", "float_series"):
            row.pop("loss")  # it is left out
        self.do(held.worker, "row", at, row, step)
        held.container.book.row(row, step)
        self.pointed(held)
        for path in row:
            held.container.ever.setdefault(path, set()).add("float_series")

    def delete(self, at, held):
        """Delete what is at a path and below."""
        container, path = held.container, self.draw.choice([*PATHS, *SERIES])
        there = container.visible()
        inside = any(one == path or one.startswith(path + "/") for one in there)
        if error := self.attempt(held.worker, "delete", at, path):
            assert error.kind == "MissingFieldError", error
            assert not inside, error
        else:
            container.book.op("delete", paths=[path])

    def checkpoint(self, at, held):
        """Save what a training needs to go on from here."""
        if held.owner:
            state = self.do(held.worker, "checkpoint", at)
            self.saved.append((held.container, held.container.book.offset, state))

    def resume(self):
        """Begin an attempt: what older ones recorded after the checkpoint is hidden.

        Who owned the run stops first: what one of an older attempt goes on to record is hidden or
        not by when its journals were opened.
        """
        if not self.saved:
            return
        worker = self.worker()
        run, offset, state = self.draw.choice(self.saved)
        for at, held in list(self.held.items()):
            if held.container is run and held.owner:
                self.stop(at, held)
        assert self.take(worker, "resume", run.project, state) == run.name
        run.attempt += 1
        run.book.hidden |= {at for at, of in run.points if at >= offset and of < run.attempt}
        self.hold(worker, run, owner=True)

    def read(self):
        """Another process, or the same one, reads a run."""
        one = self.draw.choice(self.containers)
        self.compare(one, self.workers[self.worker()])

    def compare(self, one, asked):
        """Compare what a worker reads of a container with what must be there."""
        told = asked.do("read_at", "run", one.project, one.name)
        found = dict(told["attributes"])
        assert "monitoring/seamark/fold_errors" not in found
        assert "monitoring/seamark/dropped" not in found
        wanted = one.visible()
        shown = {path for path in found if not path.startswith(("sys/", "monitoring/"))}
        assert shown == {path for path in wanted if not path.startswith("sys/")}
        for path, (family, value) in wanted.items():
            got = found.get(path)
            assert got is not None, path
            assert got["family"] == family, path
            if family == "atom":
                assert [got["type"], got["value"]] == value, path
            else:
                points = oracle.expected_records([one.book], [one.book.offset], path, family)
                lines = told["series"].get(path, {"step": [], "value": []})
                assert lines["step"] == [point[0] for point in points], path
                assert lines["value"] == [point[1] for point in points], path
        assert one.state in (None, found["sys/state"]["value"])

    def everything(self, asked):
        for one in self.containers:
            self.compare(one, asked)

    def end(self):
        """Read all of it: here, from the bytes alone, and from a copy."""
        self.everything(self.workers[0])
        self.everything(self.hire(self.root))
        for worker in self.workers:
            worker.end()
        for at in list(self.held):
            self.left(at, "completed")
        self.everything(self.hire(self.root))
        copy = self.folder / "copy"
        shutil.copytree(self.root, copy)
        self.everything(self.hire(copy))


BEGINNING = ("begin", "row", "checkpoint", "row", "resume", "extend")
DEEDS = ("begin", "open", "leave", "resume", "resume", "read")
DEEDS_OF_HELD = (
    *("stop", "assign", "extend", "row", "delete"),
    *("checkpoint", "checkpoint", "set_state"),
)


def compare_with_the_model(folder, seeds, deeds):
    with crews(None) as (crew,):
        for seed in seeds:
            model = RunModel(crew, folder / str(seed), seed)
            try:
                for deed in BEGINNING:
                    model.step(deed)
                for _ in range(deeds):
                    model.step(model.draw.choice(DEEDS + DEEDS_OF_HELD))
                model.end()
            finally:
                (model.folder / "deeds.txt").write_text("\n".join(model.told))


def test_a_few_deeds_of_three_processes_leave_what_the_model_says(tmp_path):
    compare_with_the_model(tmp_path, range(2), deeds=45)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
def test_many_deeds_of_three_processes_leave_what_the_model_says(tmp_path):
    compare_with_the_model(tmp_path, range(100, 120), deeds=80)

"""Any deeds of several processes, some of which are killed, leave what a plain model says.

Each deed ends before the next one begins, whoever does it. So what the journals of a run say
together is what one journal would, in the order of the deeds: the oracle of the fold is asked about
that one. Plain values tell its state, and what is kept of numbers.
"""

from __future__ import annotations

import functools
import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oracle
import pytest
from crew import Crew, RefusedError, Worker, crews
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from journal_builder import JournalBuilder

PROJECTS = ("team", "team/x", "team/x/y")
WORKERS = 3
PHASES = (Phase.explicit, Phase.generate)

workers = st.integers(0, WORKERS - 1)
which = st.integers(0, 99)
projects = st.sampled_from(PROJECTS)
paths = st.sampled_from(["a", "a/b", "c", "c/d", "parameters/lr", "sys/tags"])
series = st.sampled_from(["a", "c/d", "loss", "loss"])
sets = st.sampled_from(["a/b", "words", "sys/tags", "sys/group_tags"])
kept = st.sampled_from(["kept/a", "kept/b"])
atoms = st.one_of(
    st.integers(-9, 9), st.floats(-9, 9, width=16), st.booleans(), st.sampled_from("xyz"), st.none()
)
numbers = st.floats(-9, 9, width=16)
steps = st.integers(-2, 9).map(float)
words = st.lists(st.sampled_from(["u", "v", "w"]), min_size=1, max_size=2)
contents = st.sampled_from(["one", "two", "three"])
owners = st.sampled_from([None, False, False, True])
states = st.sampled_from(["running", "failed", "suspended", "interrupted", "completed"])


@dataclass
class Container:
    """What must be known of one run."""

    project: str
    name: str
    book: JournalBuilder = field(default_factory=JournalBuilder)
    ever: dict[str, set[str]] = field(default_factory=dict)
    seen: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    killed: set[int] = field(default_factory=set)
    state: str | None = "running"
    """None: it had several owners, or may have; who wins is not this test's to say."""
    attempt: int = 0
    """The newest one."""
    points: list[tuple[int, int]] = field(default_factory=list)
    """Where the book has points of attempts, and of which."""
    doubtful: bool = False
    """Whether somebody wrote points of whom it is not said here whether it was as an owner."""

    def visible(self):
        return dict(oracle.expected([self.book], [self.book.offset]))

    def other(self, path, family):
        """Return whether somebody ever had another family there."""
        return bool(self.ever.get(path, set()) - {family})

    @property
    def trashed(self):
        return self.visible().get("sys/trashed", ("", None))[1] == ["bool", True]


@dataclass
class Held:
    """A run that a worker holds."""

    worker: int
    container: Container
    owner: bool | None = False
    attempt: int | None = None
    """The one that its points belong to; None: to none, as of an evaluation."""


def file_of(content):
    return {"sha256": hashlib.sha256(content.encode()).hexdigest()}


def kind_of(value):
    names = {int: "int", float: "float", str: "string", bool: "bool", type(None): "null"}
    return names[type(value)]


def of_held(**drawn):
    """Make a rule of a deed that gets one of the runs that are held, and its number."""

    def decorate(deed):
        @functools.wraps(deed)
        def picked(self, number, **given):
            if found := self.pick(number):
                deed(self, *found, **given)

        return rule(number=which, **drawn)(picked)

    return decorate


class RunModel(RuleBasedStateMachine):
    """Three processes and what they do, beside what must come of it."""

    crew: Crew

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=self.place))
        self.root = self.folder / "root"
        self.caches = 0
        self.workers: list[Worker] = [self.hire() for _ in range(WORKERS)]
        self.containers: list[Container] = []
        self.held: dict[int, Held] = {}
        self.saved: list[tuple[Container, int, dict[str, Any]]] = []
        self.at = 0
        self.told: list[str] = []

    place: Path

    def hire(self, root=None):
        self.caches += 1
        cache = self.folder / f"cache{self.caches}"
        cache.mkdir()
        return self.crew.hire(root or self.root, cache)

    def do(self, worker, deed, *given):
        """Have a worker do something, and note it beside what it recorded."""
        asked = self.workers[worker]
        self.told.append(f"{asked.pid} {deed} {given}")
        try:
            return asked.do(deed, *given)
        except RefusedError as error:
            self.told[-1] += f" {error}"
            raise

    def attempt(self, worker, deed, *given):
        """Do what may be refused; return what it gave, and what it was refused with."""
        try:
            return self.do(worker, deed, *given), None
        except RefusedError as error:
            return None, error

    def pick(self, number):
        held = list(self.held.items())
        return held[number % len(held)] if held else None

    def runs(self, *, trashed=False):
        return [one for one in self.containers if one.trashed is trashed]

    def below(self, project):
        return [one for one in self.runs() if f"{one.project}/".startswith(f"{project}/")]

    def hold(self, worker, container, **more):
        self.at += 1
        held = self.held[self.at] = Held(worker, container, **more)
        held.attempt = container.attempt if held.owner else None
        return self.at

    def take(self, worker, deed, *given):
        """Do what gives a worker something more to hold."""
        return self.do(worker, deed, self.at + 1, *given)

    # ------------------------------------------------------------------- runs

    @initialize(project=projects)
    def first(self, project):
        self.begin(worker=0, project=project, given={}, start=True)

    @rule(
        worker=workers,
        project=projects,
        given=st.fixed_dictionaries({}, optional={"groups": words, "name": st.just("one")}),
        start=st.booleans(),
    )
    def begin(self, *, worker, project, given, start):
        arguments = {"params": {"lr": 1}, **given, **({} if start else {"start": False})}
        made = Container(project, self.take(worker, "begin", project, arguments))
        made.state = "running" if start else "created"
        atoms = {"parameters/lr": 1}
        if "name" in given:
            atoms["sys/name"] = given["name"]
        self.assigned(made, atoms)
        if "groups" in given:
            made.book.op("add", path="sys/group_tags", values=given["groups"])
        made.ever |= {"sys/tags": {"string_set"}, "sys/group_tags": {"string_set"}}
        self.containers.append(made)
        self.hold(worker, made, owner=True)

    @rule(worker=workers, number=which, owner=owners)
    def open(self, *, worker, number, owner):
        runs = self.runs()
        if not runs:
            return
        run = runs[number % len(runs)]
        self.take(worker, "open", run.project, run.name, owner)
        if owner:
            self.owns(run)
        self.hold(worker, run, owner=owner)

    def owns(self, run):
        others = any(one.container is run and one.owner is not False for one in self.held.values())
        run.state = None if others or run.state is None else "running"

    @of_held()
    def stop(self, at, held):
        self.do(held.worker, "stop", at)
        self.left(at)

    def left(self, at):
        """Take it that a container was stopped."""
        held = self.held.pop(at)
        if held.owner and held.container.state == "running":
            held.container.state = "completed"

    @rule(worker=workers, kill=st.booleans())
    def leave(self, *, worker, kill):
        """A process ends, or is killed; another one takes its place."""
        was = self.workers[worker]
        self.told.append(f"{was.pid} {'killed' if kill else 'ended'}")
        (was.kill if kill else was.end)()
        self.workers[worker] = self.hire()
        for at in [at for at, one in self.held.items() if one.worker == worker]:
            if not kill:
                self.left(at)
                continue
            held = self.held.pop(at)
            run = held.container
            run.killed.add(at)
            if held.owner and run.state == "running":
                run.state = "crashed"

    def alone(self, at, container, path):
        """Return whether nobody else who lives keeps something there.

        Who keeps numbers in memory does not hear that somebody else emptied the path.
        """
        return not any(other in self.held for other in container.seen.get(path, {}) if other != at)

    @of_held(state=states)
    def set_state(self, at, held, state):
        if held.owner is None:
            return
        _, error = self.attempt(held.worker, "set_state", at, state)
        assert bool(error) is not held.owner, error
        if not error:
            run = held.container
            owners = [one for one in self.held.values() if one.container is run and one.owner]
            run.state = state if len(owners) == 1 and run.state is not None else None

    # ------------------------------------------------------------------- what is recorded

    def assigned(self, container, values):
        for path in values:
            container.ever.setdefault(path, set()).add("atom")
        pairs = {path: [kind_of(value), value] for path, value in values.items()}
        container.book.op("assign", atoms=pairs)

    def write(self, number, family, path, deed, *given):
        """Do something at a path; return what is held if it was done."""
        if (found := self.pick(number)) is None:
            return None
        at, held = found
        container = held.container
        _, error = self.attempt(held.worker, deed, at, path, *given)
        if error:
            assert error.kind == "FamilyError", error
            assert container.other(path, family), error
            return None
        container.ever.setdefault(path, set()).add(family)
        if family.endswith("_series"):
            self.began(held)
        return held

    @staticmethod
    def pointed(held):
        """Note that the last record of the book is of points, and of which attempt."""
        if held.attempt is not None:
            held.container.points.append((held.container.book.said[-1].offset, held.attempt))

    @staticmethod
    def began(held):
        """Take it that something wrote a point: a run that waited is running."""
        held.container.doubtful |= held.owner is None
        if held.owner is None:  # and so may own it now
            held.container.state = None
        if held.container.state == "created" and held.owner:
            held.container.state = "running"

    @rule(number=which, path=paths, value=atoms)
    def assign(self, number, path, value):
        if path.startswith("sys/"):
            return
        if held := self.write(number, "atom", path, "assign", value):
            self.assigned(held.container, {path: value})

    @of_held(path=st.sampled_from(["sys/name", "sys/description"]), text=contents)
    def say(self, at, held, path, text):
        self.do(held.worker, "assign", at, path, text)
        self.assigned(held.container, {path: text})

    @of_held(values=st.dictionaries(st.sampled_from(["lr", "opt/b"]), atoms, min_size=1))
    def params(self, at, held, values):
        given = {f"parameters/{key}": value for key, value in values.items()}
        _, error = self.attempt(held.worker, "params", at, values)
        if error:
            assert any(held.container.other(path, "atom") for path in given), error
        else:
            self.assigned(held.container, given)

    @rule(number=which, path=series, values=st.lists(numbers, min_size=1, max_size=3), step=steps)
    def extend(self, number, path, values, step):
        at = [step + each for each in range(len(values))]
        deed = ("append", values[0], step) if len(values) == 1 else ("extend", values, at)
        if held := self.write(number, "float_series", path, *deed):
            held.container.book.column(path, at, values)
            self.pointed(held)

    @of_held(values=st.lists(numbers, min_size=2, max_size=2), step=steps)
    def row(self, at, held, values, step):
        row = {"loss": values[0], "row/acc": values[1]}
        if held.container.other("loss", "float_series"):
            row.pop("loss")  # it is left out
        self.do(held.worker, "row", at, row, step)
        held.container.book.row(row, step)
        self.pointed(held)
        self.began(held)
        for path in row:
            held.container.ever.setdefault(path, set()).add("float_series")

    @rule(number=which, path=series, text=contents, step=steps)
    def text(self, number, path, text, step):
        if held := self.write(number, "string_series", path, "append", text, step):
            held.container.book.texts(path, (step, text))
            self.pointed(held)

    @rule(number=which, path=sets, some=words, deed=st.sampled_from(["add", "remove", "assign"]))
    def change_set(self, *, number, path, some, deed):
        op, given = ("assign_set", set(some)) if deed == "assign" else (deed, some)
        if held := self.write(number, "string_set", path, deed, given):
            held.container.book.op(op, path=path, values=some)

    @rule(number=which, path=st.sampled_from(["a", "file"]), content=contents)
    def upload(self, number, path, content):
        if held := self.write(number, "file", path, "upload", content):
            held.container.book.op("file", path=path, file=file_of(content))

    @rule(
        number=which,
        path=st.sampled_from(["files", "a/b"]),
        files=st.dictionaries(st.sampled_from(["x", "y"]), contents, min_size=1, max_size=2),
    )
    def upload_files(self, number, path, files):
        """Add files to a set; one of the same name takes the place of the other."""
        if held := self.write(number, "file_set", path, "upload_files", files):
            members = {name: file_of(content) for name, content in files.items()}
            held.container.book.op("files", path=path, members=members)

    @rule(number=which, path=st.sampled_from(["files", "a/b"]), name=st.sampled_from("xyz"))
    def delete_files(self, number, path, name):
        if held := self.write(number, "file_set", path, "delete_files", [name]):
            held.container.book.op("unfiles", path=path, names=[name])

    @of_held(path=st.one_of(series, sets, kept, st.just("files")))
    def clear(self, at, held, path):
        """Empty a series or a set; whatever is there by somebody else, too."""
        container = held.container
        if not self.alone(at, container, path):
            return
        family = container.visible().get(path, ("",))[0]
        if path in container.seen:
            family = "statistic"
        _, error = self.attempt(held.worker, "clear", at, path)
        if error:
            assert error.kind == "FamilyError", error
            can = family.endswith("_series") or family in ("string_set", "statistic")
            assert not can or container.other(path, family), error
        else:
            container.book.op("clear", path=path)
            container.seen.pop(path, None)

    @of_held(path=st.one_of(paths, series, sets, kept))
    def delete(self, at, held, path):
        """Delete what is at a path and below."""
        if path.startswith("sys/"):
            return
        container = held.container
        if not self.alone(at, container, path):
            return
        there = [*container.visible(), *container.seen]
        inside = any(one == path or one.startswith(path + "/") for one in there)
        _, error = self.attempt(held.worker, "delete", at, path)
        if error:
            assert error.kind == "MissingFieldError", error
            assert not inside, error
        else:
            container.book.op("delete", paths=[path])
            container.seen.pop(path, None)

    @of_held(path=kept, values=st.lists(st.integers(-9, 9).map(float), max_size=4))
    def keep(self, at, held, path, values):
        """Keep statistics of numbers: those of all processes add up."""
        if not values:
            return
        self.do(held.worker, "keep", at, path, values)
        held.container.seen.setdefault(path, {}).setdefault(at, []).extend(values)
        self.began(held)

    @rule(worker=workers, number=which, trashed=st.booleans())
    def trash(self, *, worker, number, trashed):
        runs = self.runs(trashed=not trashed)
        if runs:
            run = runs[number % len(runs)]
            self.do(worker, "trash", run.project, run.name, trashed)
            self.assigned(run, {"sys/trashed": trashed})

    # ------------------------------------------------------------------- attempts

    @rule(number=which)
    def checkpoint(self, number):
        """Save what a training needs to go on from here."""
        owners = [(at, one) for at, one in self.held.items() if one.owner]
        if owners:
            at, held = owners[number % len(owners)]
            if (held.container, held.container.book.offset) in [one[:2] for one in self.saved]:
                return
            state = self.do(held.worker, "checkpoint", at)
            self.saved.append((held.container, held.container.book.offset, state))

    @precondition(lambda self: self.saved)
    @rule(worker=workers, number=which)
    def resume(self, worker, number):
        """Begin an attempt: what older ones recorded after the checkpoint is hidden.

        Who owned the run stops first: what one of an older attempt goes on to record is hidden or
        not by when its journals were opened.
        """
        run, offset, state = self.saved[number % len(self.saved)]
        if run.doubtful or run.trashed:
            return
        for at, held in list(self.held.items()):
            if held.container is run and held.owner is not False:
                self.do(held.worker, "stop", at)
                self.left(at)
        assert self.take(worker, "resume", run.project, state) == run.name
        run.attempt += 1
        run.book.hidden |= {at for at, of in run.points if at >= offset and of < run.attempt}
        for parts in run.seen.values():
            run.killed |= parts.keys()  # of these, what the checkpoint had is left
        self.owns(run)
        self.hold(worker, run, owner=True)

    # ------------------------------------------------------------------- reading

    def document(self, asked, one):
        return dict(asked.do("read_at", "run", one.project, one.name))

    @rule(worker=workers, number=which)
    def read(self, worker, number):
        """Another process, or the same one, reads a run."""
        one = self.containers[number % len(self.containers)]
        self.compare(one, self.document(self.workers[worker], one))

    @of_held()
    def read_own(self, at, held):
        """Who holds a container reads it."""
        self.compare(held.container, self.do(held.worker, "own", at))

    @rule(worker=workers, project=projects, name=st.sampled_from("uvw"))
    def look(self, worker, project, name):
        self.compare_tables(self.workers[worker], project, name)

    def compare_tables(self, asked, project, name):
        inside = self.below(project)
        assert set(asked.do("found", project)) == {one.name for one in inside}
        shown = {one.name: one.visible() for one in inside}

        def has(run, path):
            family, value = shown[run.name].get(path, ("", None))
            return value if family == "string_set" else set()

        members = {one.name for one in inside if name in has(one, "sys/group_tags")}
        assert set(asked.do("members", project, name)) == members

    def compare(self, one, told):
        """Compare what was read of a container with what must be there."""
        found = dict(told["attributes"])
        assert "monitoring/seamark/fold_errors" not in found
        assert "monitoring/seamark/dropped" not in found
        wanted = one.visible()
        shown = {path for path in found if not path.startswith(("sys/", "monitoring/", "kept/"))}
        assert shown == {path for path in wanted if not path.startswith("sys/")}
        for path, (family, value) in wanted.items():
            got = found.get(path)
            if got is None and path in ("sys/tags", "sys/group_tags"):
                assert not value
                continue
            assert got is not None, path
            assert got["family"] == family, path
            if family == "atom":
                assert [got["type"], got["value"]] == value, path
            elif family == "string_set":
                assert set(got["value"]) == value, path
            elif family == "file":
                assert got["value"]["sha256"] == value["sha256"], path
            elif family == "file_set":
                told_of = {name: file["sha256"] for name, file in got["value"].items()}
                assert told_of == {name: file["sha256"] for name, file in value.items()}, path
            else:
                part = "series" if family == "float_series" else "texts"
                points = oracle.expected_records([one.book], [one.book.offset], path, family)
                lines = told[part].get(path, {"step": [], "value": []})
                assert lines["step"] == [point[0] for point in points], path
                assert lines["value"] == [point[1] for point in points], path
        self.compare_kept(one, found)
        if one.state is not None:
            assert found["sys/state"]["value"] == one.state

    def compare_kept(self, one, found):
        """Compare what is kept of numbers: of who lives or was killed, some first part is there."""
        loose = one.killed | self.held.keys()
        for path, parts in one.seen.items():
            sums = {(0, 0.0)}
            for at, values in parts.items():
                ends = range(len(values) + 1) if at in loose else [len(values)]
                first = [(end, sum(values[:end])) for end in ends]
                sums = {(m + n, x + y) for m, x in sums for n, y in first}
            seen = found.get(path, {}).get("value", {"count": 0, "sum": 0.0})
            assert (seen["count"], seen["sum"]) in sums, path

    # ------------------------------------------------------------------- the end

    def everything(self, asked):
        for one in self.containers:
            self.compare(one, self.document(asked, one))
        for project in PROJECTS:
            self.compare_tables(asked, project, "u")

    def teardown(self):
        """Read all of it: here, from the bytes alone, and from a copy."""
        try:
            self.everything(self.workers[0])
            self.everything(self.hire())
            for worker in self.workers:
                worker.end()
            for at in list(self.held):
                self.left(at)
            self.everything(self.hire())
            copy = self.folder / "copy"
            shutil.copytree(self.root, copy)
            self.everything(self.hire(copy))
        finally:
            (self.folder / "deeds.txt").write_text("\n".join(self.told))


@pytest.mark.once
def test_what_a_resumed_training_recorded_after_the_checkpoint_is_hidden(tmp_path):
    """Deeds of trainings that are resumed often, drawn without Hypothesis."""
    draw = random.Random(1)
    draws: dict[str, Callable[[], Any]] = {
        "number": lambda: draw.randrange(100),
        "worker": lambda: draw.randrange(WORKERS),
        "project": lambda: draw.choice(PROJECTS),
        "step": lambda: float(draw.randrange(9)),
        "values": lambda: [draw.uniform(-9, 9) for _ in "ab"],
        "value": lambda: draw.randrange(9),
        "files": lambda: {name: draw.choice(["one", "two"]) for name in draw.sample("xy", 2)},
        "name": lambda: draw.choice("xy"),
        "path": lambda: draw.choice(["files", "loss"]),
        "kill": lambda: draw.random() < 0.7,
    }
    deeds: list[tuple[str, str, dict[str, Any]]] = [
        ("begin", "worker project", {"given": {"groups": ["u", "v"]}, "start": True}),
        ("row", "number step values", {}),
        ("upload_files", "number files", {"path": "files"}),
        ("checkpoint", "number", {}),
        ("row", "number step values", {}),
        ("resume", "worker number", {}),
        ("extend", "number step values", {"path": "loss"}),  # the first ones are done in this order
        ("text", "number", {"path": "c/d", "text": "t", "step": 1.0}),
        ("assign", "number value", {"path": "c"}),
        ("keep", "number", {"path": "kept/a", "values": [1.0, 2.0]}),
        ("open", "worker number", {"owner": False}),
        ("checkpoint", "number", {}),
        ("resume", "worker number", {}),
        ("delete_files", "number name", {"path": "files"}),
        ("clear", "number path", {}),
        ("leave", "worker kill", {}),
        ("read", "worker number", {}),
    ]
    with crews(None) as (RunModel.crew,):
        RunModel.place = tmp_path
        machine = RunModel()
        for deed, drawn, given in deeds[:7] + draw.choices(deeds, k=30):
            getattr(machine, deed)(**given, **{name: draws[name]() for name in drawn.split()})
        machine.teardown()


def run_machine(tmp_path, **how):
    how |= {"deadline": None, "suppress_health_check": list(HealthCheck)}
    with crews(None) as (RunModel.crew,):
        RunModel.place = tmp_path
        run_state_machine_as_test(RunModel, settings=settings(**how))


@pytest.mark.once
def test_a_few_deeds_of_three_processes_leave_what_the_model_says(tmp_path):
    run_machine(tmp_path, max_examples=3, stateful_step_count=30)


@pytest.mark.once
@pytest.mark.thorough
@pytest.mark.timeout(7200)
def test_many_deeds_of_three_processes_leave_what_the_model_says(tmp_path):
    run_machine(tmp_path, max_examples=20, stateful_step_count=80, phases=PHASES)

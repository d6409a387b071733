"""Any deeds of several processes, some of which are killed, leave what a plain model says.

Each deed ends before the next one begins, whoever does it. So what the journals of a run say
together is what one journal would, in the order of the deeds: the oracle of the fold is asked about
that one. Plain values tell its state, and what is kept of numbers.
"""

from __future__ import annotations

import hashlib
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
SETS = ("a/b", "words", "sys/tags", "sys/group_tags")
KEPT = ("kept/a", "kept/b")
TEXTS = ("one", "two", "three")
STATES = ("running", "failed", "suspended", "interrupted", "completed")


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
    """None: it had several owners; who wins is not this test's to say."""
    attempt: int = 0
    """The newest one."""
    points: list[tuple[int, int]] = field(default_factory=list)
    """Where the book has points of attempts, and of which."""

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
    owner: bool = False
    attempt: int | None = None
    """The one that its points belong to; None: to none, as of an evaluation."""


def file_of(content):
    return {"sha256": hashlib.sha256(content.encode()).hexdigest()}


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

    # ------------------------------------------------------------------- what is drawn

    def worker(self):
        return self.draw.randrange(WORKERS)

    def some_number(self):
        return self.draw.choice([0.0, -0.0, 0.5, self.draw.uniform(-9, 9)])

    def some_value(self):
        return self.draw.choice([self.draw.randrange(-9, 9), self.some_number(), True, "x", None])

    def some_step(self):
        return float(self.draw.randrange(-2, 9))

    def some_words(self):
        return self.draw.choices("uvw", k=self.draw.randint(1, 2))

    # ------------------------------------------------------------------- what is asked

    def hire(self, root):
        self.caches += 1
        cache = self.folder / f"cache{self.caches}"
        cache.mkdir(parents=True)
        return self.crew.hire(root, cache)

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
        """Do what may be refused; return what it was refused with."""
        try:
            self.do(worker, deed, *given)
        except RefusedError as error:
            return error
        return None

    def step(self, deed):
        if deed not in DEEDS_OF_HELD:
            getattr(self, deed)()
        elif self.held:
            getattr(self, deed)(*self.draw.choice(list(self.held.items())))

    def runs(self, *, trashed=False):
        return [one for one in self.containers if one.trashed is trashed]

    def hold(self, worker, container, **more):
        self.at += 1
        held = self.held[self.at] = Held(worker, container, **more)
        held.attempt = container.attempt if held.owner else None

    def take(self, worker, deed, *given):
        """Do what gives a worker something more to hold."""
        return self.do(worker, deed, self.at + 1, *given)

    # ------------------------------------------------------------------- runs

    def begin(self):
        worker, project = self.worker(), self.draw.choice(PROJECTS)
        given: dict[str, Any] = {"params": {"lr": 1}}
        if self.draw.random() < 0.5:
            given["groups"] = self.some_words()
        if self.draw.random() < 0.5:
            given["name"] = "one"
        if self.containers and self.draw.random() < 0.5:
            given["start"] = False
        made = Container(project, self.take(worker, "begin", project, given))
        made.state = "created" if "start" in given else "running"
        self.assigned(made, {"parameters/lr": 1})
        if "name" in given:
            self.assigned(made, {"sys/name": "one"})
        if "groups" in given:
            made.book.op("add", path="sys/group_tags", values=given["groups"])
        made.ever |= {"sys/tags": {"string_set"}, "sys/group_tags": {"string_set"}}
        self.containers.append(made)
        self.hold(worker, made, owner=True)

    def open(self):
        runs = self.runs()
        if not runs:
            return
        worker, run = self.worker(), self.draw.choice(runs)
        owner = self.draw.choice([False, False, True])
        self.take(worker, "open", run.project, run.name, owner)
        if owner:
            self.owns(run)
        self.hold(worker, run, owner=owner)

    def owns(self, run):
        others = any(one.container is run and one.owner for one in self.held.values())
        run.state = None if others or run.state is None else "running"

    def stop(self, at, held):
        self.do(held.worker, "stop", at)
        self.left(at)

    def left(self, at):
        """Take it that a container was stopped."""
        held = self.held.pop(at)
        if held.owner and held.container.state == "running":
            held.container.state = "completed"

    def leave(self):
        """A process ends, or is killed; another one takes its place."""
        worker, kill = self.worker(), self.draw.random() < 0.6
        was = self.workers[worker]
        self.told.append(f"{was.pid} {'killed' if kill else 'ended'}")
        (was.kill if kill else was.end)()
        self.workers[worker] = self.hire(self.root)
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

    def set_state(self, at, held):
        state = self.draw.choice(STATES)
        error = self.attempt(held.worker, "set_state", at, state)
        assert bool(error) is not held.owner, error
        if not error:
            run = held.container
            owners = [one for one in self.held.values() if one.container is run and one.owner]
            run.state = state if len(owners) == 1 and run.state is not None else None

    def trash(self):
        trashed = self.draw.random() < 0.5
        if runs := self.runs(trashed=not trashed):
            run = self.draw.choice(runs)
            self.do(self.worker(), "trash", run.project, run.name, trashed)
            self.assigned(run, {"sys/trashed": trashed})

    # ------------------------------------------------------------------- what is recorded

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

    @staticmethod
    def pointed(held):
        """Take it that a point was written, of the attempt of who holds the run."""
        run = held.container
        if held.attempt is not None:
            run.points.append((run.book.said[-1].offset, held.attempt))
        RunModel.began(held)

    @staticmethod
    def began(held):
        if held.container.state == "created" and held.owner:
            held.container.state = "running"

    def assign(self, at, held):
        path, value = self.draw.choice(PATHS), self.some_value()
        if self.write(at, held, "atom", path, "assign", value):
            self.assigned(held.container, {path: value})

    def say(self, at, held):
        path, text = self.draw.choice(["sys/name", "sys/description"]), self.draw.choice(TEXTS)
        self.do(held.worker, "assign", at, path, text)
        self.assigned(held.container, {path: text})

    def params(self, at, held):
        values = {self.draw.choice(["lr", "opt/b"]): self.some_value() for _ in range(2)}
        given = {f"parameters/{key}": value for key, value in values.items()}
        if error := self.attempt(held.worker, "params", at, values):
            assert any(held.container.other(path, "atom") for path in given), error
        else:
            self.assigned(held.container, given)

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

    def text(self, at, held):
        path, text, step = self.draw.choice(SERIES), self.draw.choice(TEXTS), self.some_step()
        if book := self.write(at, held, "string_series", path, "append", text, step):
            book.texts(path, (step, text))
            self.pointed(held)

    def change_set(self, at, held):
        path, some = self.draw.choice(SETS), self.some_words()
        deed = self.draw.choice(["add", "remove", "assign"])
        given = set(some) if deed == "assign" else some
        if book := self.write(at, held, "string_set", path, deed, given):
            book.op("assign_set" if deed == "assign" else deed, path=path, values=some)

    def upload(self, at, held):
        path, content = self.draw.choice(["a", "file"]), self.draw.choice(TEXTS)
        if book := self.write(at, held, "file", path, "upload", content):
            book.op("file", path=path, file=file_of(content))

    def upload_files(self, at, held):
        """Add files to a set; one of the same name takes the place of the other."""
        path = self.draw.choice(["files", "a/b"])
        names = self.draw.sample("xy", self.draw.randint(1, 2))
        files = {name: self.draw.choice(TEXTS) for name in names}
        if book := self.write(at, held, "file_set", path, "upload_files", files):
            members = {name: file_of(content) for name, content in files.items()}
            book.op("files", path=path, members=members)

    def delete_files(self, at, held):
        path, name = self.draw.choice(["files", "a/b"]), self.draw.choice("xyz")
        if book := self.write(at, held, "file_set", path, "delete_files", [name]):
            book.op("unfiles", path=path, names=[name])

    def clear(self, at, held):
        """Empty a series or a set; whatever is there by somebody else, too."""
        container, path = held.container, self.draw.choice([*SERIES, *SETS, *KEPT, "files"])
        if not self.alone(at, container, path):
            return
        family = container.visible().get(path, ("",))[0]
        if path in container.seen:
            family = "statistic"
        if error := self.attempt(held.worker, "clear", at, path):
            assert error.kind == "FamilyError", error
            can = family.endswith("_series") or family in ("string_set", "statistic")
            assert not can or container.other(path, family), error
        else:
            container.book.op("clear", path=path)
            container.seen.pop(path, None)

    def delete(self, at, held):
        """Delete what is at a path and below."""
        container, path = held.container, self.draw.choice([*PATHS, *SERIES, "words", *KEPT])
        if not self.alone(at, container, path):
            return
        there = [*container.visible(), *container.seen]
        inside = any(one == path or one.startswith(path + "/") for one in there)
        if error := self.attempt(held.worker, "delete", at, path):
            assert error.kind == "MissingFieldError", error
            assert not inside, error
        else:
            container.book.op("delete", paths=[path])
            container.seen.pop(path, None)

    def keep(self, at, held):
        """Keep statistics of numbers: those of all processes add up."""
        path = self.draw.choice(KEPT)
        values = [float(self.draw.randrange(-9, 9)) for _ in range(self.draw.randint(1, 4))]
        self.do(held.worker, "keep", at, path, values)
        held.container.seen.setdefault(path, {}).setdefault(at, []).extend(values)
        self.began(held)

    # ------------------------------------------------------------------- attempts

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
        saved = [one for one in self.saved if not one[0].trashed]
        if not saved:
            return
        worker = self.worker()
        run, offset, state = self.draw.choice(saved)
        for at, held in list(self.held.items()):
            if held.container is run and held.owner:
                self.stop(at, held)
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

    def read(self):
        """Another process, or the same one, reads a run."""
        one = self.draw.choice(self.containers)
        self.compare(one, self.document(self.workers[self.worker()], one))

    def read_own(self, at, held):
        """Who holds a container reads it."""
        self.compare(held.container, self.do(held.worker, "own", at))

    def look(self):
        asked = self.workers[self.worker()]
        self.compare_tables(asked, self.draw.choice(PROJECTS), self.draw.choice("uvw"))

    def compare_tables(self, asked, project, name):
        inside = [one for one in self.runs() if f"{one.project}/".startswith(f"{project}/")]
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

    def end(self):
        """Read all of it: here, from the bytes alone, and from a copy."""
        self.everything(self.workers[0])
        self.everything(self.hire(self.root))
        for worker in self.workers:
            worker.end()
        for at in list(self.held):
            self.left(at)
        self.everything(self.hire(self.root))
        copy = self.folder / "copy"
        shutil.copytree(self.root, copy)
        self.everything(self.hire(copy))


BEGINNING = ("begin", "row", "upload_files", "checkpoint", "row", "resume", "extend")
DEEDS = ("begin", "open", "leave", "trash", "resume", "resume", "read", "look")
DEEDS_OF_HELD = (
    *("stop", "set_state", "assign", "say", "params", "extend", "row", "text", "change_set"),
    *("upload", "upload_files", "delete_files", "clear", "delete", "keep", "read_own"),
    *("checkpoint", "checkpoint"),
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

"""Folders of two machines that recorded the same projects, merged by rsync: both say the same."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from crew import Crew, Worker, crews

pytestmark = pytest.mark.skipif(shutil.which("rsync") is None, reason="there is no rsync")

PROJECT = "team/x"
TODO = "parameters/todo = true"


@pytest.fixture(scope="module")
def hosts():
    """Two machines."""
    with crews("ada", "bob") as found:
        yield found


class Side:
    """One machine, its root, and a worker on it."""

    def __init__(self, crew: Crew, folder: Path) -> None:
        self.crew, self.folder = crew, folder
        self.root = folder / "root"
        self.root.mkdir(parents=True)
        self.numbers = itertools.count()
        self.worker = self.hire()

    def hire(self) -> Worker:
        cache = self.folder / f"cache{next(self.numbers)}"
        cache.mkdir()
        return self.crew.hire(self.root, cache)

    def artifact(self, name: str, content: str) -> str:
        at = 1000 + next(self.numbers)
        self.worker.do("draft", at, PROJECT, name)
        self.worker.do("add_file", at, "f", content)
        return str(self.worker.do("save", at)[0])

    def run(self, **given: Any) -> tuple[int, str]:
        at = 1000 + next(self.numbers)
        return at, self.worker.do("begin", at, PROJECT, given)

    def version(self) -> str:
        at = 1000 + next(self.numbers)
        found = self.worker.do("version", at, PROJECT, "NET")
        self.worker.do("stop", at)
        return str(found[0])


def rsync(source, target, *options):
    subprocess.run(
        ["rsync", "-a", *options, f"{source.root}/", f"{target.root}/"], check=True, timeout=60
    )


def merge(one, other):
    """Make both folders hold the same, as the page about claims says."""
    rsync(one, other, "--append")
    rsync(other, one, "--append")
    rsync(one, other, "--checksum")


@pytest.fixture
def sides(hosts, tmp_path):
    return [Side(crew, tmp_path / f"side{at}") for at, crew in enumerate(hosts)]


def same(sides, deed, *given):
    """Return what both say."""
    one, other = (side.worker.do(deed, *given) for side in sides)
    assert one == other
    return one


@pytest.mark.once
@pytest.mark.parametrize("released", [False, True])
def test_one_of_two_machines_that_claimed_a_run_has_it(sides, released):
    one, other = sides
    at, run = one.run(params={"todo": True})
    one.worker.do("stop", at)
    merge(one, other)
    for side in sides:
        assert side.worker.do("claim", 1, PROJECT, TODO, None) == run
    if released:
        assert other.worker.do("release", 1) is True
    merge(one, other)
    for side in sides:
        assert side.worker.do("claim", 2, PROJECT, TODO, None) is None
    told = [side.worker.do("release", 1) for side in sides]
    assert told == [True, False]
    merge(one, other)
    assert other.worker.do("claim", 2, PROJECT, TODO, None) == run


@pytest.mark.once
def test_a_folder_is_merged_both_ways_while_it_is_recorded(sides):
    """An older copy that comes back takes nothing from who records."""
    one, other = sides
    at, run = one.run()
    for step in range(5):
        one.worker.do("row", at, {"loss": float(step)}, float(step))
        rsync(one, other)
        one.worker.do("row", at, {"loss": step + 0.5}, step + 0.5)
        rsync(other, one)
    one.worker.do("stop", at)
    merge(one, other)
    told = same(sides, "read_at", "run", PROJECT, run)
    assert told["series"]["loss"]["step"] == [step / 2 for step in range(10)]


class Deeds:
    """Random work on two machines, and what must be there at the end."""

    def __init__(self, sides: list[Side], seed: int) -> None:
        self.sides, self.draw = sides, random.Random(seed)
        self.live: list[tuple[Side, int, str]] = []
        self.points: dict[str, list[float]] = {}
        self.rates: dict[str, int] = {}
        self.tags: dict[str, set[str]] = {}
        self.versions: set[str] = set()
        self.contents: dict[str, str] = {}
        sides[0].worker.do("make_model", 1, PROJECT, "NET")
        rsync(*sides)

    def do(self, number: int) -> None:
        side = self.draw.choice(self.sides)
        mine = [each for each in self.live if each[0] is side]
        deeds = [self.run, self.version, self.artifact, self.alias, self.merge]
        getattr(self, self.draw.choice([one.__name__ for one in deeds]))(side)
        for _, at, run in mine:
            self.record(side, at, run, float(number))
        if mine and self.draw.random() < 0.2:
            self.live.remove(found := self.draw.choice(mine))
            side.worker.do("stop", found[1])

    def record(self, side: Side, at: int, run: str, number: float) -> None:
        side.worker.do("row", at, {"loss": number}, number)
        self.points[run].append(number)
        side.worker.do("add", at, "sys/tags", [f"t{number}"])
        self.tags[run].add(f"t{number}")

    def run(self, side: Side) -> None:
        rate = self.draw.randrange(2)
        at, run = side.run(params={"lr": rate})
        self.live.append((side, at, run))
        self.points[run], self.tags[run], self.rates[run] = [], set(), rate

    def version(self, side: Side) -> None:
        self.versions.add(side.version())

    def artifact(self, side: Side) -> None:
        content = self.draw.choice("abcde")
        self.contents[side.artifact("data", content)] = content

    def alias(self, side: Side) -> None:
        there = side.worker.do("artifacts", PROJECT, "data") if self.contents else {}
        if there:
            side.worker.do("alias", PROJECT, "data", self.draw.choice(sorted(there)), "best")

    def merge(self, side: Side) -> None:
        (other,) = (one for one in self.sides if one is not side)
        rsync(side, other, self.draw.choice(["--append", "--append", "--ignore-existing"]))

    def compare(self) -> None:
        for side, at, _ in self.live:
            side.worker.do("stop", at)
        for one, other in (self.sides, self.sides[::-1]):
            rsync(one, other, "--append")
        for side in self.sides:
            side.worker = side.hire()
        for run, steps in self.points.items():
            told = same(self.sides, "read_at", "run", PROJECT, run)
            assert told["series"].get("loss", {"step": []})["step"] == steps
            found = told["attributes"]
            assert set(found.get("sys/tags", {"value": ()})["value"]) == self.tags[run]
            assert found["sys/state"]["value"] == "completed"
            alike = {other for other, rate in self.rates.items() if rate == self.rates[run]}
            text = found["sys/content_hash"]["value"]
            query = f'sys/content_hash = "{text}"'
            assert set(same(self.sides, "found", PROJECT, query)) == alike
            assert same(self.sides, "duplicate", PROJECT, text) in alike
        assert set(same(self.sides, "found", PROJECT)) == self.points.keys()
        found = same(self.sides, "versions", PROJECT, "NET")
        assert found.keys() == self.versions
        numbers = sorted(number for number, _ in found.values())
        assert numbers == [*range(1, len(self.versions) + 1)]
        found = same(self.sides, "artifacts", PROJECT, "data") if self.contents else {}
        assert found.keys() == self.contents.keys()
        assert len({number for number, _ in found.values()}) == len(self.contents)
        for digest, (number, _) in found.items():
            objects = same(self.sides, "objects", PROJECT, "data", str(number))
            assert objects == {"f": self.contents[digest]}
        assert sum("best" in aliases for _, aliases in found.values()) <= 1


@pytest.mark.once
@pytest.mark.parametrize(
    ("seed", "count"),
    [
        (1, 25),
        *(
            pytest.param(seed, 60, marks=[pytest.mark.thorough, pytest.mark.timeout(7200)])
            for seed in range(30)
        ),
    ],
)
def test_random_work_on_two_machines_is_the_same_on_both(sides, seed, count):
    """Whatever was done on which side, and merged when and which way."""
    deeds = Deeds(sides, seed)
    for number in range(count):
        deeds.do(number)
    deeds.compare()

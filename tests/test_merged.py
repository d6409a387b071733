"""Folders of two machines that recorded the same projects, merged by rsync: both say the same."""

from __future__ import annotations

import itertools
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


def both_ways(sides):
    """Merge once more, and read with processes that know nothing."""
    for source, target in (sides, sides[::-1]):
        rsync(source, target, "--append")
    for side in sides:
        side.worker = side.hire()


@pytest.fixture
def sides(hosts, tmp_path):
    return [Side(crew, tmp_path / f"side{at}") for at, crew in enumerate(hosts)]


def same(sides, deed, *given):
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


def numbers_that_each_has(found):
    return sorted(number for number, _ in found.values())


@pytest.mark.once
def test_runs_of_two_machines_are_the_same_on_both(sides):
    """Rows, tags and hashes of runs that go on while they are merged in either way."""
    given = [(side, rate) for side in sides for rate in range(2)]
    live = [(side, rate, *side.run(params={"lr": rate})) for side, rate in given]
    for number, option in enumerate(("--append", "--ignore-existing", "--append")):
        for side, _, at, _ in live:
            side.worker.do("row", at, {"loss": float(number)}, float(number))
            side.worker.do("add", at, "sys/tags", [f"t{number}"])
        rsync(*(sides if number else sides[::-1]), option)
    for side, _, at, _ in live:
        side.worker.do("stop", at)
    both_ways(sides)
    for _, rate, _, run in live:
        told = same(sides, "read_at", "run", PROJECT, run)
        assert told["series"]["loss"]["step"] == [0, 1, 2]
        found = told["attributes"]
        assert set(found["sys/tags"]["value"]) == {"t0", "t1", "t2"}
        assert found["sys/state"]["value"] == "completed"
        text = found["sys/content_hash"]["value"]
        alike = {other for _, its, _, other in live if its == rate}
        assert set(same(sides, "found", PROJECT, f'sys/content_hash = "{text}"')) == alike
        assert same(sides, "duplicate", PROJECT, text) in alike


@pytest.mark.once
def test_numbers_and_aliases_of_two_machines_are_the_same_on_both(sides):
    sides[0].worker.do("make_model", 1, PROJECT, "NET")
    rsync(*sides)
    versions: set[str] = set()
    contents: dict[str, str] = {}
    for number in range(3):
        for side in sides:
            versions.add(side.version())
            for content in ("common", f"{number} of {side.folder.name}"):
                digest = side.artifact("data", content)
                contents[digest] = content
                side.worker.do("alias", PROJECT, "data", digest, "best")
        rsync(*(sides if number else sides[::-1]), "--append")
    both_ways(sides)
    found = same(sides, "versions", PROJECT, "NET")
    assert found.keys() == versions
    assert numbers_that_each_has(found) == list(range(1, 7))
    found = same(sides, "artifacts", PROJECT, "data")
    assert found.keys() == contents.keys()
    assert len(set(numbers_that_each_has(found))) == len(contents) == 7
    for digest, (number, _) in found.items():
        objects = same(sides, "objects", PROJECT, "data", str(number))
        assert objects == {"f": contents[digest]}
    assert sum("best" in aliases for _, aliases in found.values()) == 1

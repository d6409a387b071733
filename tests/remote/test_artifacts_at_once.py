"""Processes on several machines that bring an artifact to one server at the same time."""

from __future__ import annotations

import os
import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")

from crew import Worker, crews
from keep import Keep
from proxy import Proxy, Trouble
from server_waits import until

import seamark
from seamark import errors
from seamark.server.settings import Settings

PART = 8 << 20


@pytest.fixture
def keep(server):
    return Keep(Settings.at(server.folder, server.store or None))


@pytest.fixture(scope="module")
def machines(server, tmp_path_factory):
    """Two machines on which everything is imported, for all tests here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SEAMARK_")]:
            patch.delenv(name)
        patch.setenv("SEAMARK_API_TOKEN", server.token)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        with crews("red", "blue") as found:
            yield found


@pytest.fixture
def hire(machines, tmp_path):
    """Start a process, each with a root of its own, on one of the machines."""
    hired: list[Worker] = []

    def hire(machine):
        number = len(hired)
        cache = tmp_path / f"cache{number}"
        cache.mkdir()
        hired.append(machines[machine].hire(tmp_path / f"root{number}", cache))
        return hired[-1]

    yield hire
    for worker in hired:
        if worker.lives:
            worker.kill()


def bring(workers, brought, **there):
    """Have each worker bring a version of ``data``, all at once; return their digests."""
    for worker, files in zip(workers, brought, strict=True):
        worker.ask("bring", there["project"], "data", files, there["remote"])
    return [worker.answer() for worker in workers]


def versions(given, count):
    """Return the number of each version, by digest, once there are so many to be read."""
    found: dict[str, int] = {}

    def read():
        try:
            opened = seamark.init_artifact("data", mode="read-only", **given)
        except errors.RunNotFoundError:  # other processes sent it: nobody waits for the fold
            return False
        rows = opened.fetch_versions_table(columns=["sys/version"]).to_rows()
        found.clear()
        found.update({row["sys/id"]: row["sys/version"] for row in rows})
        return len(found) >= count

    until(read)
    return found


def contents(given, digest):
    opened = seamark.init_artifact(digest, mode="read-only", **given)
    return {one.path: opened.open(one.path).read() for one in opened.objects}


def test_the_same_content_is_one_version(there, hire, keep):
    noise = random.Random(1)
    files = {"small": b"small", "big": noise.randbytes(2 * PART + 1000)}
    given = there("reader")
    workers = [hire(one % 2) for one in range(4)]
    digests = set(bring(workers, [files] * 4, project=given["project"], remote=given["remote"]))
    (digest,) = digests
    assert versions(given, 1) == {digest: 1}
    assert contents(given, digest) == files
    assert len(keep.whole(given["project"])) == 2
    for hours in (25, 27):  # what the slower ones sent beside it goes
        keep.tend(hours)
    assert sorted(keep.contents(given["project"]).values()) == [1, 4]  # three parts and their list
    assert contents(given, digest) == files
    with seamark.init_artifact(digest, **given) as opened:
        opened.alias("best")
    assert seamark.init_artifact("data:best", mode="read-only", **there("other")).digest == digest


def test_different_content_is_a_version_each(there, hire):
    """Each machine knew of none before: numbers are told apart all the same, and stay so."""
    noise = random.Random(2)
    common = noise.randbytes(100_000)
    brought = [{"common": common, "own": noise.randbytes(1000)} for _ in range(4)]
    given = there("reader")
    workers = [hire(one % 2) for one in range(4)]
    digests = bring(workers, brought, project=given["project"], remote=given["remote"])
    numbers = versions(given, 4)
    assert sorted(numbers.values()) == [1, 2, 3, 4]
    assert set(numbers) == set(digests)
    for digest, files in zip(digests, brought, strict=True):
        assert contents(given, digest) == files
    latest = seamark.init_artifact("data:latest", mode="read-only", **there("other"))
    assert numbers[latest.digest] == 4
    (fifth,) = bring(
        [hire(0)], [{"own": b"fifth"}], project=given["project"], remote=given["remote"]
    )
    assert versions(given, 5) == {**numbers, fifth: 5}


def test_one_is_killed_in_the_middle(there, hire, keep, server):
    content = random.Random(3).randbytes(3 * PART)
    files = {"small": b"small", "big": content}
    given = there("reader")
    at = urlsplit(server.url)
    proxy = Proxy(
        (str(at.hostname), int(at.port or 0)),
        lambda _: Trouble(after_sent=PART + PART // 2, silent=True),
    )
    try:
        killed = hire(0)
        killed.ask("bring", given["project"], "data", files, proxy.url)
        until(lambda: PART in keep.arrived(given["project"]))
        killed.kill()
    finally:
        proxy.close()
    ((begun, _),) = versions(given, 1).items()
    opened = seamark.init_artifact(begun, mode="read-only", **given)
    assert opened.open("small").read() == b"small"
    with pytest.raises(errors.FileMissingError):
        opened.open("big")
    with pytest.raises(errors.FileMissingError):
        opened.download(Path("partly"))
    assert not Path("partly/big").exists()
    (digest,) = bring([hire(1)], [files], project=given["project"], remote=given["remote"])
    assert digest == begun
    assert versions(given, 1) == {digest: 1}
    assert contents(given, digest) == files

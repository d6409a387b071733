"""Artifacts on a server: sent, read and found like those of a folder, and what a purge leaves."""

from __future__ import annotations

import os
import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("fastapi")

import urllib3
from click.testing import CliRunner
from command import app
from crew import Worker, crews
from keep import Keep
from proxy import Trouble, proxied
from recording import QUIET
from server_waits import until

import seamark
from seamark import errors
from seamark.paths import ARTIFACTS
from seamark.remote.http.catalog import RemoteCatalog
from seamark.server.settings import Settings

PART = 8 << 20


@pytest.fixture
def keep(server):
    return Keep(Settings.at(server.folder, server.store or None))


@pytest.fixture
def project(there):
    return there("x")["project"]


@pytest.fixture
def command(server, monkeypatch):
    """Call the command for what is on the server."""
    monkeypatch.setenv("SEAMARK_REMOTE", server.url)

    def command(*words):
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    return command


@pytest.fixture
def purge(command, project):
    """Purge versions of ``data``."""

    def purge(*versions):
        command("trash", *(f"{project}/data:{version}" for version in versions))
        command("purge", "--yes", "--project", project)

    return purge


def read(given, version="data"):
    return seamark.init_artifact(version, mode="read-only", **given)


def contents(given, version):
    opened = read(given, version)
    return {one.path: opened.open(one.path).read() for one in opened.objects}


def test_a_saved_version_is_sent_and_read_elsewhere(there, command, project, tmp_path):
    """Numbers and aliases count on; the same content is the same version."""
    file = tmp_path / "data.bin"
    file.write_bytes(b"d" * 5000)
    with seamark.init_artifact(name="data", **there("one")) as one:
        one.add_file(file)
        one.add_file(file, "again/")
        one.alias("best")
    best = read(there("three"), "data:best")
    assert (best.version, best.aliases, best.digest) == (1, ["best", "latest"], one.digest)
    back = best.download(tmp_path / "back")
    assert (back / "again/data.bin").read_bytes() == file.read_bytes()
    with seamark.init_artifact(name="data", **there("two")) as two:
        two.add_reference("s3://bucket/data")
    assert read(there("three")).version == 2
    with seamark.init_artifact(name="data", description="same", **there("two")) as same:
        same.add_file(file)
        same.add_file(file, "again/")
    assert same.digest == one.digest
    assert read(there("three"), "data:1")["sys/description"].fetch() == "same"
    with seamark.init_run(name="train", **there("two"), **QUIET) as run:
        run.mark_input("data:best")  # which is on the server only
        run.mark_output(same, name="copy")
    found = seamark.init_run("train", mode="read-only", **there("three")).lineage()
    labels = {one.label.rpartition("/")[2] for one in found.nodes.values()}
    assert labels == {"train", "data:1"}
    opened = seamark.init_project(mode="read-only", **there("three"))
    assert [row["sys/version"] for row in opened.fetch_artifacts_table()] == [2]
    name = f"{project}/data:1"
    for words in (["export", name, "--format", "json"], ["show", name]):
        assert one.digest[:12] in command(*words)


# ---------------------------------------------------------------------- several machines at once


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
    """Start a process with a root of its own on one of the machines."""
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


def bring(workers, brought, given):
    """Let each worker save a version of ``data``, all at once; return their digests."""
    for worker, files in zip(workers, brought, strict=True):
        worker.ask("bring", given["project"], "data", files, given["remote"])
    return [worker.answer() for worker in workers]


def versions(given, count):
    """Return the number of each version, by digest, once so many of them can be read."""
    found: dict[str, int] = {}

    def enough():
        try:
            rows = read(given).fetch_versions_table(columns=["sys/version"]).to_rows()
        except errors.RunNotFoundError:  # other processes sent it: nobody waits for the fold
            return False
        found.clear()
        found.update({row["sys/id"]: row["sys/version"] for row in rows})
        return len(found) >= count

    until(enough)
    return found


def test_several_machines_bring_the_same_and_then_different_content(there, hire, keep, project):
    """The same content is one version; different content gets different numbers, which stay."""
    noise = random.Random(1)
    files = {"small": b"small", "big": noise.randbytes(2 * PART + 1000)}
    given = there("reader")
    workers = [hire(one % 2) for one in range(4)]
    (digest,) = set(bring(workers, [files] * 4, given))
    assert versions(given, 1) == {digest: 1}
    assert contents(given, digest) == files
    assert len(keep.whole(project)) == 2
    with seamark.init_artifact(digest, **given) as opened:
        opened.alias("best")
    assert read(there("other"), "data:best").digest == digest
    common = noise.randbytes(100_000)
    brought = [{"common": common, "own": noise.randbytes(1000)} for _ in range(4)]
    digests = bring(workers, brought, given)
    numbers = versions(given, 5)
    assert sorted(numbers.values()) == [1, 2, 3, 4, 5]
    assert set(numbers) == {digest, *digests}
    for one, own in zip(digests, brought, strict=True):
        assert contents(given, one) == own
    assert numbers[read(there("other"), "data:latest").digest] == 5
    (sixth,) = bring([hire(0)], [{"own": b"sixth"}], given)  # it knew of none before
    assert versions(given, 6) == {**numbers, sixth: 6}


def test_a_version_whose_sender_was_killed_is_completed_by_another(
    there, hire, keep, server, project
):
    files = {"small": b"small", "big": random.Random(3).randbytes(3 * PART)}
    given, at = there("reader"), urlsplit(server.url)
    address = str(at.hostname), int(at.port or 0)
    with proxied(address, lambda _: Trouble(after_sent=PART + PART // 2, silent=True)) as proxy:
        killed = hire(0)
        killed.ask("bring", project, "data", files, proxy.url)
        until(lambda: PART in keep.arrived(project))
        killed.kill()
    ((begun, _),) = versions(given, 1).items()
    opened = read(given, begun)
    assert opened.open("small").read() == b"small"
    for fails in (lambda: opened.open("big"), lambda: opened.download(Path("partly"))):
        with pytest.raises(errors.FileMissingError):
            fails()
    assert not Path("partly/big").exists()
    assert bring([hire(1)], [files], given) == [begun]
    assert versions(given, 1) == {begun: 1}
    assert contents(given, begun) == files


# ---------------------------------------------------------------------- purged versions


@pytest.fixture
def save(tmp_path):
    """Save a version of ``data``, and return it once all of it is on the server."""

    def save(given, **files):
        with seamark.init_artifact(name="data", **given) as made:
            for name, content in files.items():
                (tmp_path / name).write_bytes(content)
                made.add_file(tmp_path / name)
        return made

    return save


def digest_of(made, name):
    return str(next(one.sha256 for one in made.objects if one.path == name))


def test_contents_without_a_version_are_removed(there, keep, purge, command, server, save):
    """A day after the purge of the last version of the project that has them."""
    noise = random.Random(1).randbytes
    both, alone, later = noise(5000), noise(6000), noise(7000)
    mine = there("one")
    project = mine["project"]
    theirs = {**there("two"), "project": f"{project}-too"}
    first = save(mine, both=both, alone=alone)
    second = save(mine, both=both, later=later)
    assert save(theirs, both=both, alone=alone).digest == first.digest
    named = {name: digest_of(first, name) for name in ("both", "alone")}
    named["later"] = digest_of(second, "later")
    assert keep.whole(project) == set(named.values())
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}
    command("trash", f"{project}/data:1")
    keep.tend(25)
    assert keep.whole(project) == set(named.values())  # the trash is no purge
    purge(1)
    with RemoteCatalog.open(server.url, server.token) as catalog:
        catalog.names()
        assert not catalog.behind  # nobody waits for what was sent of it
    keep.tend(1)
    assert keep.whole(project) == set(named.values())
    for hours in (25, 27):  # they are released, and an hour later removed
        keep.tend(hours)
    assert keep.whole(project) == {named["both"], named["later"]}
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}
    assert contents(there("reader"), "data:2") == {"both": both, "later": later}
    assert contents({**theirs, "root": mine["root"] / "far"}, "data:1")["alone"] == alone
    third = save(there("three"), alone=alone)  # its bytes are sent again
    assert keep.whole(project) == set(named.values())
    found = read(there("reader"))
    assert (found.digest, found.open("alone").read()) == (third.digest, alone)
    purge(2, third.version)
    for hours in (25, 27):
        keep.tend(hours)
    assert not keep.contents(project)
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}


def test_a_download_ends_though_its_version_is_purged(there, keep, purge, server, save, project):
    content = random.Random(4).randbytes(40 << 20)  # more than buffers on the way take
    made = save(there("one"), big=content)
    address = f"{server.url}/api/v1/runs/{project}/{ARTIFACTS}/data/{made.digest}"
    with urllib3.PoolManager(headers={"Authorization": f"Bearer {server.token}"}) as pool:
        url = f"{address}/blobs/{digest_of(made, 'big')}"
        answer = pool.request("GET", url, preload_content=False)
        assert answer.status == 200
        parts = [answer.read(1000)]
        purge(1)
        keep.tend(25)
        assert pool.request("GET", url).status == 404
        while block := answer.read(1 << 20):
            parts.append(block)
        assert b"".join(parts) == content
        keep.tend(27)
    assert not keep.contents(project)
    with pytest.raises(errors.RunNotFoundError):
        read(there("reader"), "data:1")

"""Artifacts on a server: sent, read and found like those of a folder, and what a purge leaves."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("fastapi")

from click.testing import CliRunner
from command import app
from keep import Keep
from recording import QUIET

import seamark
from seamark.remote.http.catalog import RemoteCatalog
from seamark.server.settings import Settings


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

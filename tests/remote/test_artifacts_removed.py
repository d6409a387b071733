"""What is left on a server of artifacts whose versions were purged: what anything names still."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
from collections.abc import Callable

import pytest

pytest.importorskip("fastapi")

import urllib3
from click.testing import CliRunner
from command import app
from keep import Keep

import seamark
from seamark import errors
from seamark.paths import ARTIFACTS
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.places import open_remote
from seamark.remote.protocol import Purged, RunKey
from seamark.server.settings import Settings

MEGABYTE = 1 << 20


@pytest.fixture
def keep(server):
    return Keep(Settings.at(server.folder, server.store or None))


@pytest.fixture
def command(server, monkeypatch):
    """Call the command for what is on the server."""
    monkeypatch.setenv("SEAMARK_REMOTE", server.url)

    def command(*words):
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        return done.output

    return command


def save(given, files, folder):
    """Save a version of ``data``, and return it once all of it is on the server."""
    folder.mkdir(parents=True, exist_ok=True)
    with seamark.init_artifact(name="data", **given) as made:
        for name, content in files.items():
            (folder / name).write_bytes(content)
            made.add_file(folder / name)
    return made


def digest_of(made, name):
    return str(next(one.sha256 for one in made.objects if one.path == name))


def test_what_no_version_names_goes_and_all_else_stays(there, keep, command, server, tmp_path):
    noise = random.Random(1).randbytes
    both, alone, later = noise(5000), noise(6000), noise(7000)
    mine, theirs = there("one"), {**there("two"), "project": f"{there('x')['project']}-too"}
    first = save(mine, {"both": both, "alone": alone}, tmp_path / "files")
    second = save(mine, {"both": both, "later": later}, tmp_path / "files")
    other = save(theirs, {"both": both, "alone": alone}, tmp_path / "files")
    assert other.digest == first.digest
    named = {name: digest_of(first, name) for name in ("both", "alone")}
    named["later"] = digest_of(second, "later")
    project = mine["project"]
    assert keep.whole(project) == set(named.values())
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}
    command("trash", f"{project}/data:1")
    keep.tend(25)
    assert keep.whole(project) == set(named.values())  # the trash is no purge
    command("purge", "--yes", "--project", project)
    with RemoteCatalog.open(server.url, server.token) as catalog:
        catalog.names()
        assert not catalog.behind  # what was sent of it is awaited by nobody
    keep.tend(1)
    assert keep.whole(project) == set(named.values())  # a day is left to who was told of them
    for hours in (25, 27):  # they are let go of, and an hour later removed
        keep.tend(hours)
    assert keep.whole(project) == {named["both"], named["later"]}
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}
    read = seamark.init_artifact("data:2", mode="read-only", **there("reader"))
    assert read.open("both").read() == both
    assert read.open("later").read() == later
    kept = seamark.init_artifact("data:1", mode="read-only", **{**theirs, "root": tmp_path / "far"})
    assert kept.open("alone").read() == alone
    third = save(there("three"), {"alone": alone}, tmp_path / "files")  # its bytes are sent anew
    assert keep.whole(project) == set(named.values())
    found = seamark.init_artifact("data", mode="read-only", **there("reader"))
    assert (found.digest, found.open("alone").read()) == (third.digest, alone)
    command("trash", f"{project}/data:2", f"{project}/data:{third.version}")
    command("purge", "--yes", "--project", project)
    for hours in (25, 27):
        keep.tend(hours)
    assert not keep.contents(project)
    assert keep.whole(theirs["project"]) == {named["both"], named["alone"]}


class _Slow(io.BytesIO):
    """A file of which something happens before its second part is read."""

    def __init__(self, content: bytes, happens: Callable[[], object]) -> None:
        super().__init__(content)
        self._happens, self._parts = happens, 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._parts += 1
        if self._parts == 2:
            self._happens()
        return super().read(size)


def test_a_purge_while_its_files_are_on_their_way(there, keep, command, server, tmp_path):
    content = random.Random(2).randbytes(9 * MEGABYTE)  # two parts
    project = there("one")["project"]
    first = save(there("one"), {"small": b"first"}, tmp_path / "files")
    second = save(there("one"), {"small": b"second"}, tmp_path / "files")
    big = hashlib.sha256(content).hexdigest()
    remote = open_remote(server.url, server.token)
    place = f"{project}/{ARTIFACTS}/data"

    def purge():
        command("trash", f"{project}/data:1")
        command("purge", "--yes", "--project", project)
        keep.tend(1)

    with contextlib.closing(remote), pytest.raises(Purged):
        remote.put_blob(RunKey(place, first.digest), big, len(content), _Slow(content, purge))
    assert keep.contents(project)[big] == 1  # the part that had come
    with contextlib.closing(open_remote(server.url, server.token)) as remote:
        key = RunKey(place, second.digest)
        assert set(remote.missing_blobs(key, [big])) == {big}
        file = _Slow(content, lambda: keep.tend(23))
        file.read(0)  # what happens comes before the part that is left
        remote.put_blob(key, big, len(content), file)
        assert not remote.missing_blobs(key, [big])
    for hours in (25, 27):
        keep.tend(hours)
    assert big in keep.whole(project)


def test_an_upload_that_nobody_ends_leaves_nothing(there, keep, server, tmp_path):
    """Of a version that stays: what its other files need is not touched."""
    content = random.Random(3).randbytes(9 * MEGABYTE)
    big = hashlib.sha256(content).hexdigest()
    project = there("one")["project"]
    made = save(there("one"), {"small": b"kept"}, tmp_path / "files")

    class CutError(Exception):
        pass

    def cut():
        raise CutError

    key = RunKey(f"{project}/{ARTIFACTS}/data", made.digest)
    with contextlib.closing(open_remote(server.url, server.token)) as remote:
        with pytest.raises(CutError):
            remote.put_blob(key, big, len(content), _Slow(content, cut))
        assert keep.contents(project)[big] == 1
        for hours in (25, 27):
            keep.tend(hours)
        assert keep.contents(project) == {digest_of(made, "small"): 1}
        remote.put_blob(key, big, len(content), io.BytesIO(content))
        assert big in keep.whole(project)


def test_who_downloads_what_is_purged_reads_to_its_end(there, keep, command, server, tmp_path):
    content = random.Random(4).randbytes(40 * MEGABYTE)  # more than lies in buffers on the way
    made = save(there("one"), {"big": content}, tmp_path / "files")
    project = there("one")["project"]
    address = f"{server.url}/api/v1/runs/{project}/{ARTIFACTS}/data/{made.digest}"
    with urllib3.PoolManager(headers={"Authorization": f"Bearer {server.token}"}) as pool:
        url = f"{address}/blobs/{digest_of(made, 'big')}"
        answer = pool.request("GET", url, preload_content=False)
        assert answer.status == 200
        read = [answer.read(1000)]
        command("trash", f"{project}/data:1")
        command("purge", "--yes", "--project", project)
        keep.tend(25)
        assert pool.request("GET", url).status == 404
        while block := answer.read(MEGABYTE):
            read.append(block)
        assert b"".join(read) == content
        keep.tend(27)
    assert not keep.contents(project)
    with pytest.raises(errors.RunNotFoundError):
        seamark.init_artifact("data:1", mode="read-only", **there("reader"))

"""Run folders from other people: whatever is in them, the reader's own files stay as they are."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import outcome_of
from journal_builder import JournalBuilder
from recording import QUIET

from seamark import init_project, init_run
from seamark.blobs import finish_staged
from seamark.errors import ArgumentError, FileMissingError, JournalError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.process.liveness import process_facts

LARGE = 5_000_000
GONE = {"pid": 2**22 + 1, "start": 1}
"""A process that is not there any more."""


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "root", "p", "stranger")


@pytest.fixture
def victim(tmp_path):
    """A folder of the reader's with old files."""
    place = tmp_path / "home"
    (place / "inner").mkdir(parents=True)
    for name in ("letter.txt", "inner/photo.jpg", "0123456789abcdef"):
        (place / name).write_text(name)
        os.utime(place / name, (1, 1))
    return place


def contents(place):
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def read(folder, **given):
    given = {"mode": "read-only", **given}
    return init_run(folder.project, with_id=folder.run, root=folder.root, **given, **QUIET)


def command(folder, *words):
    return outcome_of(*words, "--root", str(folder.root))


def honest(folder, staged=""):
    """Record a whole run of this process's own in that place, with a file that is not stored."""
    writer = JournalBuilder("honest", **process_facts()).assign(lr=0.1)
    folder.path.mkdir(parents=True)
    for name in staged:
        writer.op("own", path=name, token=name, file={"name": name, "staged": name, "size": 1})
    writer.close().save(folder)


def stage(folder):
    folder.staging_dir.mkdir()
    (folder.staging_dir / "a").write_bytes(b"x")


@pytest.mark.parametrize("name", [".staging", "blobs", "files"])
@pytest.mark.parametrize("way", ["open", "download", "finish", "trash", "purge"])
def test_files_behind_a_link_in_a_run_folder_stay(folder, victim, name, way, tmp_path, monkeypatch):
    monkeypatch.setattr("seamark.blobs.store._MIN_AGE_S", -60.0)  # all of it is old enough to go
    honest(folder, "a")
    (folder.path / name).symlink_to(victim)
    if name != ".staging":
        stage(folder)
    before = contents(victim)
    if way == "open":
        with pytest.raises(JournalError, match="link"):
            read(folder, mode="offline").stop()
    elif way == "download":
        with pytest.raises(FileMissingError):
            read(folder)["a"].download(str(tmp_path / "out"))
    elif way == "finish":
        command(folder, "fsck", "--finish")
        assert "not a file" in command(folder, "fsck").output
    elif way == "trash":
        command(folder, "trash", folder.run)
    else:
        assert command(folder, "purge", folder.run, "--force", "--yes").exit_code == 0
        assert not folder.path.exists()
    assert contents(victim) == before


@pytest.mark.parametrize("name", ["journal", ".", "..", "../.purged"])
def test_run_that_lies_elsewhere_than_below_the_root_is_none(folder, victim, name):
    honest(folder)
    command(folder, "ls")
    place = Path(os.path.normpath(folder.path / name))
    if name == "../.purged":
        place.symlink_to(victim)
    else:
        place.rename(victim / "moved")
        place.symlink_to(victim / "moved")
    before = contents(victim)
    for words in (["purge", folder.run, "--force", "--yes"], ["purge", "--yes"], ["reindex"]):
        command(folder, *words)
    command(folder, "fsck", "--finish")
    if name != "../.purged":
        with pytest.raises(RunNotFoundError, match=r"link|no run"):
            read(folder)
        assert folder.run not in command(folder, "ls").output
    with pytest.raises((RunNotFoundError, JournalError)):
        read(folder, mode="offline").stop()
    assert contents(victim) == before


def test_odd_names_loops_and_depths_hide_no_run(folder, tmp_path):
    """And a run is listed once; the root itself may be a link."""
    honest(folder)
    (tmp_path / "short").symlink_to(folder.root)
    found = init_run("p", with_id=folder.run, root=tmp_path / "short", mode="read-only")
    assert found["lr"].fetch() == 0.1
    (folder.root / "p" / "loop").symlink_to(folder.root)
    (folder.root / "again").symlink_to(folder.root / "p")
    deep = folder.root / "p"
    for _ in range(1000):
        deep /= "a"
        deep.mkdir()
    try:
        assert command(folder, "ls").output.count(folder.run) == 1
        assert command(folder, "fsck").exit_code == 0
        assert len(init_project("p", root=folder.root).fetch_runs_table().to_rows()) == 1
    finally:
        subprocess.run(["rm", "-rf", folder.root / "p" / "a"], check=True)
    (folder.root / "p" / os.fsdecode(b"run\xff") / "journal").mkdir(parents=True)
    assert command(folder, "ls").exit_code == 0
    Path(os.fsdecode(bytes(folder.journal_dir) + b"/j\xff")).touch()
    assert "not a file" in command(folder, "fsck").output
    assert read(folder)["lr"].fetch() == 0.1


def test_folder_of_another_user_is_only_read(folder, tmp_path, monkeypatch):
    honest(folder, "a")
    stage(folder)
    (folder.journal_dir / "x").touch()
    before = contents(folder.path)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    with pytest.raises(FileMissingError, match="is not stored yet"):
        read(folder)["a"].download(str(tmp_path / "out"))
    assert contents(folder.path) == before


def crafted(folder, **facts):
    folder.blobs_dir.mkdir(parents=True)
    (folder.blobs_dir / BLOB["sha256"]).write_bytes(b"x")
    return JournalBuilder("evil", **facts)


BLOB: Any = {"name": "x", "ext": "", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
OUTSIDE = ["/{home}/x", "../x", "a/../../x", "..", "a/..", "/", "", ".", "a//b"]
OUTSIDE += ["x" * 300, "a/" * 3000]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("kind", ["set", "member", "series", "ext"])
def test_no_name_leads_out_of_the_target_of_a_download(folder, victim, tmp_path, name, kind):
    name = name.format(home=victim)
    op, more = {
        "set": ("files", {"members": {name: BLOB}}),
        "member": ("file", {"file": BLOB | {"dir": True, "members": {name: [1, BLOB["sha256"]]}}}),
        "series": ("file_point", {"step": 1, "file": BLOB | {"ext": f"/{name}"}}),
        "ext": ("file", {"file": BLOB | {"ext": name}}),
    }[kind]
    crafted(folder).op(op, path="f", **more).close().save(folder)
    target, before = victim / "out", contents(victim)
    target.mkdir()
    harmless = kind == "ext" and (len(name) < 300 or "/" in name)
    with contextlib.nullcontext() if harmless else pytest.raises(ArgumentError, match="f"):
        read(folder)["f"].download(str(target))
    assert list(contents(target).values()) == [b"x"] * harmless
    shutil.rmtree(target)
    assert contents(victim) == before
    assert not list(tmp_path.glob("x"))


def test_link_in_the_target_of_a_download_is_not_followed(folder, victim, tmp_path):
    members = {"link/letter.txt": BLOB, "own/letter.txt": BLOB}
    crafted(folder).op("files", path="f", members=members).close().save(folder)
    target, before = tmp_path / "out", contents(victim)
    target.mkdir()
    (target / "link").symlink_to(victim)
    with pytest.raises(FileMissingError, match="link"):
        read(folder)["f"].download(str(target))
    (target / "link").unlink()
    (target / "link").mkdir()
    (target / "link" / "letter.txt").symlink_to(victim / "letter.txt")
    read(folder)["f"].download(str(target))
    assert contents(target) == {"link/letter.txt": b"x", "own/letter.txt": b"x"}
    assert contents(victim) == before


def test_files_of_a_series_are_named_by_their_steps(folder, tmp_path):
    journal = crafted(folder)
    for step in (1_000_000, 1_000_001, 0.5, 3):
        journal.op("file_point", path="f", step=step, file=BLOB | {"ext": "txt"})
    journal.close().save(folder)
    read(folder)["f"].download(str(tmp_path / "out"))
    assert set(contents(tmp_path / "out")) == {"1e+06.txt", "1000001.txt", "0.5.txt", "3.txt"}


@pytest.mark.parametrize("facts", ["none", "host", "boot", "all"])
def test_private_file_is_not_copied_into_a_strangers_run(folder, tmp_path, facts, monkeypatch):
    """A file that was held open elsewhere is finished only for whoever recorded it here."""
    secret = tmp_path / "id_ed25519"
    secret.write_bytes(b"secret")
    secret.chmod(0o600)
    found = secret.stat()
    file = {"name": "s", "ext": "", "size": 6, "source": str(secret)}
    file |= {"mtime_ns": found.st_mtime_ns, "inode": found.st_ino}
    me = {**process_facts(), **GONE}
    claimed = {"none": {}, "host": {"host": me["host"]}, "boot": me, "all": me}[facts]
    JournalBuilder("evil", **claimed).op("own", path="a", token="t", file=file).save(folder)
    folder.staging_dir.mkdir()
    if facts == "boot":  # all of it is right, but the file is not ours
        monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("seamark.journal.reader.SETTLE_NS", -1)
    count = finish_staged(folder)
    blobs = list(folder.blobs_dir.glob("*"))
    assert count == len(blobs) == (facts == "all")
    for blob in blobs:
        assert blob.stat().st_mode & 0o777 == 0o600


def test_contents_are_open_to_no_more_people_than_their_sources(tmp_path):
    with init_run("p", root=tmp_path / "root", **QUIET) as run:
        for name, size in (("small", 10), ("large", LARGE)):
            source = tmp_path / name
            source.write_bytes(name.encode() * size)
            source.chmod(0o600)
            run[name].upload(str(source))
        run["open"].upload(str(Path(__file__)))
    modes = sorted(path.stat().st_mode & 0o777 for path in run.folder.blobs_dir.iterdir())
    assert modes[:2] == [0o600, 0o600]
    mask = os.umask(0o22)
    os.umask(mask)
    assert modes[2] & 0o077 == Path(__file__).stat().st_mode & 0o077 & ~mask


@pytest.mark.parametrize("what", ["staged", "inside"])
def test_links_in_the_staging_folder_are_not_followed(folder, tmp_path, what):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    file: Any = {"name": "s", "size": 6, "staged": "ab"}
    folder.staging_dir.mkdir(parents=True)
    if what == "inside":
        file |= {"dir": True, "members": {"x/secret": [6, None]}}
        (folder.staging_dir / "ab").mkdir()
        (folder.staging_dir / "ab" / "x").symlink_to(tmp_path)
    else:
        (folder.staging_dir / "ab").symlink_to(secret)
    JournalBuilder("evil").op("own", path="a", token="t", file=file).close().save(folder)
    assert finish_staged(folder) == 0
    assert secret.read_bytes() == b"secret"
    assert not folder.blobs_dir.exists()
    assert read(folder).session.recorded.attribute("a").value["lost"] == "gone"


REFERENCES = {
    "own": True,
    "inside": True,
    **dict.fromkeys(("stranger", "other user", "other host beside", "other file"), False),
    **dict.fromkeys(("inside link", "inside link above"), False),
}
"""Whether a reference is opened: of this user's training, and of what lies in the run folder."""


@pytest.mark.parametrize("case", REFERENCES)
def test_reference_of_somebody_else_is_opened_on_request_alone(folder, tmp_path, case, monkeypatch):
    """It may name any file of the reader's; a link leads out of the run folder."""
    inside = folder.files_dir / "checkpoints" / "last.ckpt"
    place = inside if "inside" in case else tmp_path / "home" / "last.ckpt"
    for each in {place, tmp_path / "home" / "last.ckpt"}:
        each.parent.mkdir(parents=True)
        each.write_bytes(b"secret")
    found = place.stat()
    file = {"name": "s", "size": 6, "ref": str(place)}
    file |= {"mtime_ns": found.st_mtime_ns, "inode": found.st_ino}
    facts = {} if case == "stranger" or "inside" in case else process_facts()
    JournalBuilder("evil", **facts).op("file", path="a", file=file).close().save(folder)
    if case == "other host beside":
        JournalBuilder("two").assign(x=1).close().save(folder)
    elif case == "other file":
        place.rename(tmp_path / "before")
        place.write_bytes(b"secret")
    elif case == "other user":
        monkeypatch.setattr("os.geteuid", lambda: 12345)
        monkeypatch.setattr("seamark.journal.safe.FileSource.owner", lambda _: 54321)
    elif case == "inside link":
        place.unlink()
        place.symlink_to(tmp_path / "home" / "last.ckpt")
    elif case == "inside link above":
        shutil.rmtree(place.parent)
        place.parent.symlink_to(tmp_path / "home")
    out = tmp_path / "out"
    if not REFERENCES[case]:
        words = "not opened" if "inside" in case else "references=True"
        with pytest.raises(FileMissingError, match=words):
            read(folder)["a"].download(str(out))
        assert not out.exists()
        with pytest.raises(FileMissingError, match=words):
            read(folder)["a"].fetch_bytes()
    if "inside link" not in case:
        given = {} if REFERENCES[case] else {"references": True}
        read(folder)["a"].download(str(out), **given)
        assert out.read_bytes() == read(folder)["a"].fetch_bytes(**given) == b"secret"


def put_odd(path, kind, elsewhere):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to({"link": elsewhere, "device": "/dev/zero", "loop": path.name}[kind])


@pytest.mark.parametrize("kind", ["pipe", "link", "device", "folder", "size"])
def test_only_regular_files_of_the_right_size_are_contents(folder, tmp_path, kind):
    """A pipe would hang the download, a device or a link would give other bytes."""
    text = {"sha256": BLOB["sha256"], "size": 1}
    journal = crafted(folder).op("file", path="a", file=BLOB).texts("t", (0, text))
    journal.op("assign", atoms={"long": ["text", text], "lr": ["int", 1]}).close().save(folder)
    blob = folder.blobs_dir / BLOB["sha256"]
    blob.unlink()
    (tmp_path / "secret").write_bytes(b"s")
    if kind == "size":
        blob.write_bytes(b"xx")
    else:
        put_odd(blob, kind, tmp_path / "secret")
    with pytest.raises(FileMissingError):
        read(folder)["a"].download(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    with pytest.raises(FileMissingError):
        read(folder)["a"].fetch_bytes()
    assert read(folder).fetch()["lr"] == 1
    assert read(folder).fetch()["long"] == text
    for path in ("long", "t"):  # asked for by itself, what cannot be read is no value
        with pytest.raises(FileMissingError, match=BLOB["sha256"]):
            read(folder)[path].fetch()
    exported = command(folder, "export", folder.run, "--format", "json")
    assert exported.exit_code == 0
    assert json.loads(exported.stdout)["runs"][0]["texts"]["t"]["value"] == [text]
    assert "its record is used instead" in exported.stderr
    for what in ("attributes", "texts"):
        assert command(folder, "export", folder.run, "--what", what).exit_code == 0
    assert "blob" in command(folder, "fsck", "--blobs").output


@pytest.mark.parametrize("kind", ["pipe", "link", "device", "folder", "loop"])
def test_odd_entry_beside_the_journals_hangs_and_hides_nothing(folder, tmp_path, kind):
    honest(folder)
    (folder.journal_dir / "host-1-honest").touch()  # an empty file of the same writer
    odd = folder.journal_dir / f"odd-1-00000000.{'0' * 32}"
    other = RunFolder(tmp_path / "r", "p", "x")
    JournalBuilder("other").assign(stolen=1).save(other)
    put_odd(odd, kind, next(other.journal_dir.iterdir()))
    assert read(folder)["lr"].fetch() == 0.1
    assert not read(folder).exists("stolen")
    assert folder.run in command(folder, "ls").output
    found = command(folder, "fsck")
    assert odd.name in found.output
    assert found.exit_code == 1

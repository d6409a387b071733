"""Runs that are moved: by `sync`, which settles names, and as folders, which stay whole."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command import outcome_of, output_of
from journal_builder import JournalBuilder
from journals import journal_files
from recording import QUIET
from server_waits import until

import seamark
from seamark.errors import (
    ArgumentError,
    FileMissingError,
    PathError,
    RunExistsError,
    RunNotFoundError,
)
from seamark.journal.folder import RunFolder
from seamark.reading.names import CONFLICTS, RunName, settle
from seamark.remote.protocol import RemoteError
from seamark.run.adapters import CheckpointSet

ROOT = Path("here")


class Place:
    """A root or a server to which runs are moved: its URI, and arguments with which it is read."""

    def __init__(self, uri: str, read: dict[str, Any]) -> None:
        self.uri, self.read = uri, read

    def names(self) -> dict[str, str]:
        project = seamark.init_project("team/p", **self.read)
        try:
            table = project.fetch_runs_table(columns=["sys/name"])
        except RunNotFoundError:
            return {}
        return {row["sys/id"]: row.get("sys/name") for row in table.to_rows()}

    def shows(self, names: dict[str, str]) -> None:
        """Expect these names, from a server once it has folded what came."""
        until(lambda: self.names() == names)

    def run(self, run: str) -> seamark.Run:
        return seamark.init_run("team/p", with_id=run, mode="read-only", **self.read)


@pytest.fixture
def root_place(tmp_path):
    there = tmp_path / "there"
    return Place(there.as_uri(), {"root": there})


@pytest.fixture(params=["root", "server"])
def place(request):
    if request.param == "root":
        return request.getfixturevalue("root_place")
    server = request.getfixturevalue("near_server")
    return Place(server.url, {"remote": server.url})


def record(name="one", **given):
    with seamark.init_run("team/p", root=ROOT, name=name, **given, **QUIET) as run:
        run["loss"].extend([3.0, 2.0, 1.0])
        run["file"].upload(seamark.types.File.from_content("content"))
    return run.id


def here(run):
    return seamark.init_run("team/p", with_id=run, root=ROOT, mode="read-only")


def command(*words):
    given = [str(word) for word in words]
    return outcome_of(*given, "--root", str(ROOT))


def synced(*words):
    done = command("sync", *words)
    assert done.exit_code == 0, done.output
    return done.stderr


def test_a_name_that_is_taken_is_settled_in_four_ways(place):
    first, second, third, last = (record() for _ in range(4))
    (moved,) = seamark.sync(first, place.uri, root=ROOT, conflict="error")
    assert (moved.project, moved.run, moved.name, moved.skipped) == ("team/p", first, "one", False)
    with pytest.raises(RunExistsError, match=f"run {first} of project 'team/p' .*name 'one'"):
        seamark.sync(second, place.uri, root=ROOT, conflict="error")
    (moved,) = seamark.sync(second, place.uri, root=ROOT, conflict="skip")
    assert (moved.skipped, moved.journal_bytes) == (True, 0)
    place.shows({first: "one"})
    assert place.run(first)["file"].fetch_bytes() == b"content"
    (moved,) = seamark.sync(second, place.uri, root=ROOT)
    assert moved.name == "one-2"
    assert "is called 'one-3' at" in synced(third, "--to", place.uri)
    place.shows({first: "one", second: "one-2", third: "one-3"})
    synced(last, "--to", place.uri, "--conflict", "replace")
    place.shows({last: "one", second: "one-2", third: "one-3"})
    assert place.run(first)["sys/trashed"].fetch() is True
    assert place.run(last)["loss"].fetch_points().value.tolist() == [3.0, 2.0, 1.0]


def test_a_run_that_was_moved_goes_on_and_both_places_note_the_transfer(place):
    run = record()
    seamark.sync(run, place.uri, root=ROOT)
    with seamark.init_run("team/p", with_id=run, root=ROOT, **QUIET) as again:
        again["loss"].append(0.5)
    assert seamark.sync(again, place.uri, conflict="error")[0].journal_bytes > 0
    assert seamark.sync(again, place.uri, conflict="error")[0].journal_bytes == 0
    place.shows({run: "one"})
    assert len(place.run(run)["loss"].fetch_points()) == 4
    (told,) = again.transfers
    assert [told] == place.run(run).transfers
    assert (told["to"], told["name"]) == (place.uri, "one")
    assert told["from"].endswith(str(ROOT.absolute()))
    assert told["by"] == here(run)["sys/owner"].fetch()


def test_a_missing_project_is_made_unless_that_is_not_wanted(place):
    run = record()
    with pytest.raises(RemoteError, match="there is no project 'team/p' at"):
        seamark.sync(run, place.uri, root=ROOT, make_project=False)
    done = command("sync", run, "--to", place.uri, "--no-make-project")
    assert done.exit_code == 1
    assert "there is no project" in done.stderr
    place.shows({})
    seamark.sync(run, place.uri, root=ROOT)
    seamark.sync(record("two"), place.uri, root=ROOT, make_project=False)
    until(lambda: sorted(place.names().values()) == ["one", "two"])


def test_whatever_names_runs_can_be_moved(root_place):
    """Names, objects, folders of one run and of many, and several of these; else it says so."""
    first, second = record("one"), record("two", tags=["x"])
    third = record(None)
    there = root_place.uri
    assert [one.run for one in seamark.sync("team/p/one", there, root=ROOT)] == [first]
    folder = ROOT / "team/p" / second
    assert [one.run for one in seamark.sync(folder, there)] == [second]
    for whole in (ROOT, ROOT / "team", f"{ROOT}/team/p"):
        assert {one.run for one in seamark.sync(whole, there)} == {first, second, third}
    opened = seamark.init_run("team/p", with_id=first, root=ROOT, mode="read-only")
    assert len(seamark.sync([opened, third], there, root=ROOT)) == 2
    for wrong, error in ((3, ArgumentError), ("nobody", RunNotFoundError), ([], RunNotFoundError)):
        with pytest.raises(error):
            seamark.sync(wrong, there, root=ROOT)
    with pytest.raises(ArgumentError, match="expected another place than the root itself"):
        seamark.sync(first, ROOT.absolute().as_uri(), root=ROOT)
    with pytest.raises(ArgumentError, match="conflict: expected one of 'new', 'skip', "):
        seamark.sync(first, there, root=ROOT, conflict="ask")


def artifact(content, root=ROOT, name="data"):
    file = Path("content.txt")
    file.write_text(content)
    with seamark.init_artifact(name=name, project="team/p", root=root) as made:
        made.add_file(file)
    return made


def versions(place, *, trashed=False):
    try:
        opened = seamark.init_artifact("data", project="team/p", mode="read-only", **place.read)
    except RunNotFoundError:
        return set()
    with opened:
        return {row["sys/id"] for row in opened.fetch_versions_table(trashed=trashed).to_rows()}


def test_the_name_of_an_artifact_is_settled_in_four_ways(place):
    elsewhere = Path("elsewhere")
    first, second = artifact("first"), artifact("second")
    other, last = artifact("other", elsewhere), artifact("last", elsewhere)
    (moved,) = seamark.sync("team/p/data:1", place.uri, root=ROOT, conflict="error")
    assert (moved.run, moved.name, moved.skipped) == (first.digest, "data", False)
    until(lambda: versions(place) == {first.digest})
    seamark.sync(second, place.uri, conflict="error")  # one version there is one here
    until(lambda: versions(place) == {first.digest, second.digest})
    with pytest.raises(RunExistsError, match=r"another artifact of project 'team/p' .*'data'"):
        seamark.sync(other, place.uri, conflict="error")
    (moved,) = seamark.sync("data:1", place.uri, root=elsewhere, conflict="skip")
    assert (moved.skipped, moved.journal_bytes) == (True, 0)
    assert versions(place) == {first.digest, second.digest}
    seamark.sync(other, place.uri)
    until(lambda: versions(place) == {first.digest, second.digest, other.digest})
    read = seamark.init_artifact(
        f"data@sha256:{other.digest}", project="team/p", mode="read-only", **place.read
    )
    assert (read.download("copy") / "content.txt").read_text() == "other"
    seamark.sync(last, place.uri, conflict="replace")  # the same artifact as other
    every = {one.digest for one in (first, second, other, last)}
    until(lambda: versions(place) == every)


def test_an_artifact_replaces_another(root_place):
    elsewhere = Path("elsewhere")
    old = artifact("first"), artifact("second")
    new = artifact("other", elsewhere), artifact("last", elsewhere)
    seamark.sync(ROOT / "team", root_place.uri)
    seamark.sync(elsewhere, root_place.uri, conflict="replace")
    assert versions(root_place) == {one.digest for one in new}
    assert versions(root_place, trashed=None) == {one.digest for one in (*old, *new)}


@pytest.mark.parametrize("conflict", CONFLICTS)
@pytest.mark.parametrize(
    "place", ["root", pytest.param("server", marks=pytest.mark.thorough)], indirect=True
)
def test_two_at_once_may_bring_one_name(place, conflict):
    made = [here(record()) for _ in range(2)]

    def bring(one):
        try:
            (moved,) = seamark.sync(one, place.uri, conflict=conflict)
        except RunExistsError:
            return "exists"
        return "skipped" if moved.skipped else "moved"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(bring, made))
    other = {"error": "exists", "skip": "skipped"}.get(conflict, "moved")
    assert said == sorted(["moved", other])
    names = ["one", "one-2"] if conflict == "new" else ["one"]
    until(lambda: sorted(place.names().values()) == names)


@pytest.mark.parametrize("clock", [1, -(10**9)])
def test_of_two_that_replace_each_other_one_stays(clock):
    """In whatever order both ask, ask again at their end, and come, even if clocks go back."""
    orders = set(itertools.permutations(["a", "a", "a", "b", "b", "b"]))
    for order in orders:
        held: dict[str, Any] = {}
        deeds = {run: iter(("ask", "end", "come")) for run in "ab"}
        come: set[str] = set()
        ended: dict[str, int] = {}
        trashed: dict[str, int] = {}
        for now, run in enumerate(order):
            deed = next(deeds[run])
            if deed == "come":
                come.add(run)
                continue
            gone = {one for one in come if trashed.get(one, ended[one]) > ended[one]}
            known = [RunName("p", one, "n", 1, one in gone) for one in come]
            found = settle(held, known, run, "n", "replace", clock * now)
            if deed == "end":
                assert found.t_ns is not None
                ended[run] = found.t_ns
                trashed.update(dict.fromkeys(found.others, found.t_ns))
        assert sum(trashed.get(run, ended[run]) <= ended[run] for run in "ab") == 1, order


MOVE = """
import sys, seamark
run, to, root = sys.argv[1:]
seamark.sync
print("ready", flush=True)
seamark.sync(run, to, root=root, conflict="error")
"""


@pytest.mark.once
def test_a_transfer_that_is_killed_is_not_seen_and_goes_on(root_place):
    """At whatever moment: what is there is whole, or it is not shown; in the end it is the same."""
    chance = random.Random(7)
    run = record()
    with seamark.init_run("team/p", with_id=run, root=ROOT, **QUIET) as more:
        for number in range(20):
            content = bytes([number]) * 200_000
            more[f"files/{number}"].upload(seamark.types.File.from_content(content))
    words = [sys.executable, "-c", MOVE, run, root_place.uri, str(ROOT)]
    for _ in range(4):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.4)
            process.kill()
        names = root_place.names()
        if run in names:
            assert names == {run: "one"}
            for number in range(20):
                found = root_place.run(run)[f"files/{number}"].fetch_bytes()
                assert found[:1] == bytes([number])
            break
    assert seamark.sync(run, root_place.uri, root=ROOT, conflict="error")
    assert root_place.names() == {run: "one"}
    there, own = root_place.run(run), here(run)
    # That it was sent is noted here last of all, and may be missing where that was killed.
    left_out = ("sys/modification_time", "sys/state", "sys/trashed", "sys/transfers/")
    mine, theirs = (each.to_dict()["attributes"].items() for each in (own, there))
    assert [one for one in mine if not one[0].startswith(left_out)] == [
        one for one in theirs if not one[0].startswith(left_out)
    ]
    assert there.to_dict()["series"] == own.to_dict()["series"]


def test_a_run_on_its_way_is_in_no_list_and_keeps_its_name(root_place, monkeypatch):
    run, other = record(), record()
    from seamark.registry import transfer

    whole: Callable[..., Any] = transfer.sync_run

    def cut_short(left, *rest):
        done = whole(left, *rest)
        done.problems.append("cut short")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "sync_run", cut_short)
        with pytest.raises(RemoteError, match="cut short"):
            seamark.sync(run, root_place.uri, root=ROOT)
    there = Path(root_place.read["root"], "team/p", run)
    assert len(journal_files(there)) > 1
    assert root_place.names() == {}
    assert seamark.sync(other, root_place.uri, root=ROOT)[0].name == "one-2"
    assert seamark.sync(run, root_place.uri, root=ROOT, conflict="error")[0].name == "one"
    assert root_place.names() == {run: "one", other: "one-2"}


def test_a_trashed_run_stays_in_the_trash(root_place):
    trashed, other = record(), record()
    assert command("trash", trashed).exit_code == 0
    seamark.sync(trashed, root_place.uri, root=ROOT)
    seamark.sync(other, root_place.uri, root=ROOT, conflict="error")
    assert root_place.names() == {other: "one"}
    assert root_place.run(trashed)["sys/trashed"].fetch() is True


def test_a_run_settles_its_name_as_it_begins(root_place):
    given: Any = {"root": ROOT, "remote": root_place.uri, "name": "one", **QUIET}

    def begin(**how):
        with seamark.init_run("team/p", **given, **how) as run:
            run["x"] = 1
        return run

    with pytest.raises(ArgumentError, match="project: there is no project 'team/p' at"):
        begin(make_project=False)
    first = begin(conflict="error")
    with pytest.raises(RunExistsError, match=r"name: a run of project 'team/p' at .* name 'one'"):
        begin(conflict="error", make_project=False)
    assert begin(conflict="skip").id not in root_place.names()
    second = begin(conflict="new")
    assert second.name == second["sys/name"].fetch() == "one-2"
    assert root_place.names() == {first.id: "one", second.id: "one-2"}
    last = begin(conflict="replace")
    assert root_place.names() == {last.id: "one", second.id: "one-2"}
    with pytest.raises(ArgumentError, match="conflict: expected one of 'new', 'skip', 'error'"):
        begin(conflict="ask")


def refer_to_odd_names(run):
    """Record an artifact as input whose names lead out of any folder."""
    of = {"kind": "artifact", "project": "..", "name": "../../x", "id": "../y"}
    op = {"op": "artifact", "path": "artifacts/inputs/strange", "kind": "artifact"}
    run.session.recorder.values.record_op(
        {**op, "files": [], "references": [], "hash": "0", "of": of}
    )


def digest_of(name, there):
    try:
        return seamark.init_artifact(f"{name}:latest", **there).digest
    except RunNotFoundError:
        return None


def test_a_run_takes_along_the_artifacts_that_it_read_and_made(place):
    """Sent by `sync` to a root, and as it records to a server."""
    made = {}
    for name, project in (("read", "team/p"), ("made", "team/other"), ("other", "team/p")):
        with seamark.init_artifact(name=name, project=project, root=ROOT) as artifact:
            artifact.add_reference(f"s3://lab/{name}.tar")
        made[name] = artifact
    remote = place.read.get("remote")
    with seamark.init_run("team/p", root=ROOT, name="one", remote=remote, **QUIET) as run:
        run["loss"].append(1.0)
        run.mark_input(made["read"])
        run.mark_output(made["made"])
        refer_to_odd_names(run)
    if remote is None:
        sent = seamark.sync(run, place.uri)
        assert [one.folder.kind for one in sent] == ["artifact", "artifact", "run"]
    for name, project in (("read", "team/p"), ("made", "team/other")):
        there = {"project": project, "mode": "read-only", **place.read}
        until(lambda name=name, there=there: digest_of(name, there) == made[name].digest)
    with pytest.raises(RunNotFoundError):
        seamark.init_artifact("other:1", project="team/p", mode="read-only", **place.read)


def test_everything_is_moved_into_the_project_that_is_named(place):
    with seamark.init_artifact(name="read", project="team/other", root=ROOT) as read:
        read.add_reference("s3://lab/read.tar")
    with seamark.init_run("team/p", root=ROOT, name="one", **QUIET) as run:
        run["loss"].extend([3.0, 2.0])
        run["file"].upload(seamark.types.File.from_content("content"))
        run.mark_input(read)
        run.mark_input("s3://lab/reference")
        refer_to_odd_names(run)
    for wrong in ("../q", "lab/files", ""):
        with pytest.raises(PathError, match="project"):
            seamark.sync(run, place.uri, project=wrong)
        assert command("sync", run.id, "--to", place.uri, "--to-project", wrong).exit_code == 2
    sent = seamark.sync(run, place.uri, project="lab/q")
    assert [one.project for one in sent] == ["lab/q/.artifacts/read", "lab/q"]
    again = seamark.sync(run, place.uri, project="lab/q")
    assert {one.journal_bytes for one in again} == {0}
    given: dict[str, Any] = {"project": "lab/q", "mode": "read-only", **place.read}
    until(lambda: digest_of("read", given) == read.digest)
    there = seamark.init_run(with_id=run.id, **given)
    until(lambda: len(there["loss"].fetch_points()) == 2)
    assert there["file"].fetch_bytes() == b"content"
    assert there["sys/name"].fetch() == "one"
    assert there.lineage().nodes[read.digest].project.removesuffix("/.artifacts/read") == "lab/q"
    (told,) = there.transfers
    assert (told["to"], told["project"]) == (place.uri, "lab/q")
    assert place.names() == {}
    assert run.lineage().nodes[read.digest].project.startswith("team/other")
    with seamark.init_run("team/p", with_id=run.id, root=ROOT, **QUIET) as more:
        more["loss"].append(1.0)
    synced(run.id, "--to", place.uri, "--to-project", "lab/q")
    until(lambda: len(there["loss"].fetch_points()) == 3)
    seamark.sync(run, place.uri)  # both are kept
    place.shows({run.id: "one"})
    assert len(run.transfers) == 2


def test_a_moved_folder_brings_artifacts_models_and_versions(tmp_path):
    with seamark.init_artifact(name="digits", project="team/p", root=ROOT) as digits:
        digits.add_reference("s3://lab/digits.tar")
    with seamark.init_model(key="NET", project="team/p", root=ROOT):
        pass
    with seamark.init_model_version(model="NET", project="team/p", root=ROOT) as version:
        version["val/acc"] = 0.9
    there = {"project": "team/p", "root": tmp_path / "there", "mode": "read-only"}
    seamark.sync(str(ROOT), (tmp_path / "there").as_uri())
    assert seamark.init_artifact("digits:1", **there).digest == digits.digest
    assert seamark.init_model_version("NET-1", **there)["val/acc"].fetch() == 0.9
    with pytest.raises(RunNotFoundError):
        seamark.sync("nowhere", (tmp_path / "there").as_uri())


CHECKPOINT = "model/checkpoints/best"
WEIGHTS = b"weights" * 100


@pytest.fixture
def folder():
    """A run with a checkpoint in its own folder, one elsewhere, and a folder of shards."""
    with seamark.init_run("p", root=ROOT, custom_run_id="one", **QUIET) as run:
        place = run.folder.files_dir / "checkpoints"
        (place / "shards").mkdir(parents=True)
        (place / "best.ckpt").write_bytes(WEIGHTS)
        (place / "shards" / "0.pt").write_bytes(b"shard")
        (place / "last.ckpt").symlink_to("best.ckpt")
        Path("elsewhere.ckpt").write_bytes(b"other")
        for name in ("best", "last"):
            run.session.content.refer(f"model/checkpoints/{name}", place / f"{name}.ckpt")
        run.session.content.refer("model/checkpoints/shards", place / "shards")
        run.session.content.refer("model/elsewhere", Path("elsewhere.ckpt"))
        run["model/best_model_path"] = str(place / "best.ckpt")
        run["loss"].append(1.0)
    return run.folder


def opened(root, folder):
    given: Any = {"mode": "read-only", **QUIET}
    return seamark.init_run(folder.project, with_id=folder.run, root=root, **given)


def output(root, *words):
    return output_of(*words, "--root", str(root))


def move(root, _):
    return ROOT.rename(root)


def copy(root, folder):
    """Like ``cp -r``: times and inodes are new; a reader that opens the first one is found out."""
    shutil.copytree(ROOT, root, symlinks=True, copy_function=shutil.copyfile)
    (folder.files_dir / "checkpoints" / "best.ckpt").write_bytes(b"not this")
    return root


def synchronise(root, folder):
    """Like ``rsync -a`` to another host: only times stay, and nothing else is there."""
    shutil.copytree(folder.path, root / folder.project / folder.run, symlinks=True)
    shutil.rmtree(ROOT)
    return root


@pytest.fixture(params=[move, copy, synchronise])
def moved(request, folder):
    way: Callable[[Path, RunFolder], Path] = request.param
    return way(Path("second").absolute(), folder)


def test_checkpoints_are_downloaded_from_the_new_place(folder, moved, monkeypatch):
    # Another host has another name, and its reader another uid.
    with monkeypatch.context() as patch:
        patch.setattr("seamark.blobs.contents.are_recorded_by_user", lambda _: False)
        opened(moved, folder)[CHECKPOINT].download("stranger.ckpt")
    assert Path("stranger.ckpt").read_bytes() == WEIGHTS
    run = opened(moved, folder)
    for name in ("best", "last"):
        run[f"model/checkpoints/{name}"].download(f"{name}.ckpt")
        assert Path(f"{name}.ckpt").read_bytes() == WEIGHTS
    run["model/checkpoints/shards"].download("shards")
    assert Path("shards/0.pt").read_bytes() == b"shard"


def test_records_without_the_key_are_found_by_project_and_run(tmp_path):
    """Also where the path goes through both twice, as Lightning had it; the root may be a link."""
    folder = RunFolder(tmp_path / "new", "p", "r1")
    (tmp_path / "disk").mkdir()
    folder.root.symlink_to(tmp_path / "disk")
    inside = "files/p/r1/checkpoints/best.ckpt"
    place = folder.path / inside
    place.parent.mkdir(parents=True)
    place.write_bytes(WEIGHTS)
    file = {"name": "best", "size": len(WEIGHTS), "ref": f"/old/root/p/r1/{inside}"}
    other = {**file, "size": 3}
    elsewhere = {**file, "ref": f"/old/root/q/r1/{inside}"}
    builder = JournalBuilder("old")
    for path, record in (("a", file), ("b", other), ("c", elsewhere)):
        builder.op("file", path=path, file=record)
    builder.close().save(folder)
    run = opened(folder.root, folder)
    run["a"].download("a")
    assert Path("a").read_bytes() == WEIGHTS
    for path in ("b", "c"):
        with pytest.raises(FileMissingError, match="not opened"):
            run[path].download(path)
    assert str(place) in output(folder.root, "show", "r1", "a").replace("\n", "")


def test_tracked_files_are_found_in_a_moved_folder():
    """Their records have no key for it; the root may be a link."""
    with seamark.init_run("p", root=ROOT, **QUIET) as run:
        place = run.folder.files_dir / "data"
        place.mkdir(parents=True)
        (place / "a.csv").write_bytes(WEIGHTS)
        run["data"].track_files(str(place), wait=True)
    shutil.move(ROOT, "second")
    Path("link").symlink_to("second")
    opened(Path("link"), run.folder)["data"].download("out")
    assert (Path("out") / "a.csv").read_bytes() == WEIGHTS


def crafted(tmp_path, files):
    folder = RunFolder(tmp_path / "root", "p", "r1")
    builder = JournalBuilder("evil").assign(lr=0.1)
    for path, facts in files.items():
        builder.op("file", path=path, file={"name": "s", "size": 6, **facts})
    builder.close().save(folder)
    return folder


def test_a_name_that_leads_out_of_the_run_is_no_record(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    names = [f"{tmp_path}/secret", "../secret", "files/../../secret", "files//x", "./files/x"]
    names += ["..", "", "x" * 300, 3, ["files"]]
    files = {f"a{at}": {"ref": "/nowhere/s", "inside": name} for at, name in enumerate(names)}
    folder = crafted(tmp_path, files)
    run = opened(folder.root, folder)
    assert run["lr"].fetch() == 0.1
    assert not any(path.startswith("a") for path in run.session.recorded.families())
    output(folder.root, "show", "r1")
    assert "unusable record" in outcome_of("fsck", "--root", str(folder.root)).stdout


@pytest.mark.parametrize("kind", ["pipe", "folder", "NUL"])
def test_only_a_file_of_the_folder_itself_is_opened(tmp_path, kind):
    """A pipe waits for ever; links are tested with all else that strangers may do."""
    place = tmp_path / "root/p/r1/files/checkpoints/best.ckpt"
    place.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    inside = "files/checkpoints/best.ckpt" + ("\0" if kind == "NUL" else "")
    folder = crafted(tmp_path, {"a": {"ref": "/nowhere/best.ckpt", "inside": inside}})
    with pytest.raises(FileMissingError):
        opened(folder.root, folder)["a"].download("out")
    assert not Path("out").exists()
    assert "/nowhere/best.ckpt" in output(folder.root, "show", "r1", "a")
    output(folder.root, "fsck", "--blobs")


def test_odd_references_stop_no_reader(tmp_path):
    targets = ["file://[x", "\0", "", "/p/r1/", "/p/r1/../../x", "//p/r1/x"]
    folder = crafted(tmp_path, {f"a{at}": {"ref": target} for at, target in enumerate(targets)})
    output(folder.root, "show", "r1")
    run = opened(folder.root, folder)
    for number in range(6):
        with pytest.raises(FileMissingError):
            run[f"a{number}"].download("out")


@pytest.mark.parametrize("harm", ["other bytes", "too short", "rewritten", "removed"])
def test_fsck_finds_wrong_bytes_of_checkpoints_that_no_training_rewrote(folder, harm):
    place = folder.files_dir / "checkpoints" / "best.ckpt"
    before = place.stat()
    if harm == "removed":
        place.unlink()
    else:
        place.write_bytes(b"x" * (len(WEIGHTS) - (harm == "too short")))
    if harm in ("other bytes", "too short"):
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = command("fsck", "--blobs", folder.run)
    damaged = harm in ("other bytes", "too short")
    assert (found.exit_code, "wrong file" in found.stdout) == (int(damaged), damaged)
    output(ROOT, "fsck", folder.run)


@pytest.mark.parametrize("moved", [move, synchronise], indirect=True)
def test_checkpoints_of_a_moved_run_are_taken_over(folder, moved):
    given: Any = {"root": moved, "custom_run_id": "one", **QUIET}
    with seamark.init_run("p", **given) as run:
        assert run.id == folder.run
        place = run.folder.files_dir / "checkpoints"
        files = CheckpointSet(run, "model/checkpoints")
        files.adopt(str(place))
        (place / "best.ckpt").unlink()
        files.settle()
        assert not run.exists(CHECKPOINT)

"""Artifacts: sets of files and references, in versions that never change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from command import outcome_of, output_of
from recording import QUIET

import seamark
from seamark.errors import (
    ArgumentError,
    FileMissingError,
    InactiveRunError,
    PathError,
    ReadOnlyError,
    RunNotFoundError,
    RunNotNamedError,
    UnknownArgumentError,
)
from seamark.journal.folder import RunFolder, iter_runs
from seamark.run.artifact import ArtifactObject, digest_of_objects
from seamark.run.logbook import LogSession


@pytest.fixture
def given(tmp_path):
    return {"project": "team/p", "root": tmp_path / "root"}


@pytest.fixture
def data(tmp_path):
    data = tmp_path / "data"
    (data / "in").mkdir(parents=True)
    (data / "a.txt").write_text("a")
    (data / "in/b.txt").write_text("b")
    return data


def saved(given, name, content, **more):
    return saved_files(given, name, {"content.txt": content}, **more)


def saved_files(given, name, files, **more):
    with seamark.init_artifact(name=name, **given, **more) as artifact:
        for file, content in files.items():
            Path(file).write_text(content)
            artifact.add_file(file)
    return artifact


def opened(given, word):
    return seamark.init_artifact(word, mode="read-only", **given)


def tree(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_what_is_no_artifact_is_refused_and_nothing_is_made(given):
    for wrong, error, why in (
        ({}, RunNotNamedError, "name="),
        ({"name": "x", "descripton": ""}, UnknownArgumentError, "did you mean 'description'"),
        ({"with_id": "x:1", "name": "x"}, ArgumentError, "got both"),
        *(
            ({"name": name}, PathError, "name")
            for name in ("../x", "a/b", "", ".artifacts", "con", "journal", "x:1", "x" * 101)
        ),
        ({"with_id": "x:1"}, RunNotFoundError, "no artifact 'x:1'"),
        ({"name": "x", "mode": "read-only"}, RunNotNamedError, "read-only"),
    ):
        with pytest.raises(error, match=why):
            seamark.init_artifact(**wrong, **given)
    assert not given["root"].exists()
    saved(given, "Data", "1")
    with pytest.raises(RunNotFoundError, match="Data has 1, latest"):
        opened(given, "Data:7")


def test_a_version_can_be_opened_by_the_path_or_uri_of_its_folder(given):
    folder = saved(given, "data", "1").folder.path
    for where in (folder, str(folder), folder.as_uri()):
        found = seamark.init_artifact(where, mode="read-only")
        assert (found.project, found.name, found.version) == ("team/p", "data", 1)
        assert [one.path for one in found.objects] == ["content.txt"]
    seamark.init_artifact(folder).alias("best")
    assert opened(given, "data:best").digest == folder.name
    draft = seamark.init_artifact(name="data", **given)
    run = seamark.init_run(project="team/p", root=given["root"])
    for other in (folder.parent, draft.folder.path, run.folder.path, Path("nowhere")):
        with pytest.raises(RunNotFoundError, match="expected the folder of a version of an art"):
            seamark.init_artifact(other)
    with pytest.raises(RunNotFoundError, match="expected the folder of a run"):
        seamark.init_run(with_id=folder)
    with pytest.raises(ArgumentError, match="with_id and root: expected one place"):
        seamark.init_artifact(folder, root="other")


def test_an_object_has_a_place_on_every_disk(given, data):
    with seamark.init_artifact(name="x", **given) as artifact:
        artifact.add_file(data / "a.txt", "data.txt")
        artifact.add_file(data / "a.txt", "dir/file")
        before = artifact.objects
        for destination, why in (
            ("/etc/passwd", "inside the folder"),
            ("../x", "inside the folder"),
            ("", "inside the folder"),
            ("a\\..\\b", "all file systems"),
            ("sub/aux.txt", "all file systems"),
            ("a\nb", "all file systems"),
            ("x" * 300, "at most 255 bytes"),
            ("DATA.txt", "only in case"),
            ("Dir/other.txt", "only in case"),
            ("data.txt/below", "already has 'data.txt'"),
            ("dir", "already has 'dir/'"),
            ("data.txt", "another object"),
            (7, "a name or None"),
        ):
            with pytest.raises(ArgumentError, match=why):
                artifact.add_file(data / "in/b.txt", destination)
            with pytest.raises(ArgumentError, match=why):
                artifact.add_reference("s3://bucket/key", destination)
            assert artifact.objects == before, destination
    assert opened(given, "x:1").objects == before


def test_nothing_outside_of_a_folder_comes_with_it(given, data):
    """A link counts as the file that it leads to in there; all others are errors that say so."""
    secret = data.parent / "secret"
    secret.write_text("secret")
    (data / "link").symlink_to("a.txt")
    artifact = seamark.init_artifact(name="x", **given)
    for target, why in (
        (secret, "link out of the folder"),
        ("nowhere", "broken link"),
        ("in", "a link to a folder"),
        ("/etc", "link out of the folder"),
    ):
        (data / "odd").symlink_to(target)
        with pytest.raises(FileMissingError, match=why):
            artifact.add_dir(data)
        (data / "odd").unlink()
    os.mkfifo(data / "odd")
    with pytest.raises(FileMissingError, match="a pipe"):
        artifact.add_dir(data)
    with pytest.raises(FileMissingError, match="existing file"):
        artifact.add_file(data / "odd")
    (data / "odd").unlink()
    (data / "IN").mkdir()
    (data / "IN/c.txt").write_text("c")
    with pytest.raises(ArgumentError, match="only in case"):
        artifact.add_dir(data)
    (data / "IN/c.txt").unlink()
    for act, wrong, error, why in (
        (artifact.add_file, data, FileMissingError, "add_dir adds a folder"),
        (artifact.add_dir, secret, FileMissingError, "add it with add_file"),
        (artifact.add_reference, str(secret), ArgumentError, "add_file copies"),
    ):
        with pytest.raises(error, match=why):
            act(wrong)
    with pytest.raises(ArgumentError, match="has no objects"):
        artifact.save()
    artifact.add_dir(data)
    names = [one.path for one in artifact.save().objects]
    assert names == ["data/a.txt", "data/in/b.txt", "data/link"]


def test_an_object_is_called_by_its_destination(given, data):
    """A destination is the name; one that ends with ``/`` is the folder to put it into."""
    with seamark.init_artifact(name="x", **given) as artifact:
        artifact.add_file(data / "a.txt")
        artifact.add_file(data / "a.txt", "f/")
        artifact.add_file(data / "a.txt", "f/b.txt")
        artifact.add_dir(data)
        artifact.add_dir(f"{data}/", "b/")
        artifact.add_dir(data, "c/d")
        artifact.add_reference("https://me:secret@host/x/model.pt?v=1")
        artifact.add_reference("s3://bucket/x/model.pt", "r/")
    names = [one.path for one in artifact.objects]
    assert names == sorted(
        ["a.txt", "f/a.txt", "f/b.txt", "model.pt", "r/model.pt"]
        + [f"{at}/{name}" for at in ("data", "b/data", "c/d") for name in ("a.txt", "in/b.txt")]
    )
    uris = [one.uri for one in artifact.objects if one.uri]
    assert uris == ["https://host/x/model.pt?v=1", "s3://bucket/x/model.pt"]
    assert tree(artifact.download("back")).keys() == set(names) - {"model.pt", "r/model.pt"}
    with artifact.open("b/data/in/b.txt") as file:
        assert file.read() == b"b"
    for name, why in (("nothing", "has no object"), ("model.pt", "is a reference")):
        with pytest.raises(FileMissingError, match=why):
            artifact.open(name)


def test_a_draft_is_seen_by_nobody_and_a_version_never_changes(given, data):
    artifact = seamark.init_artifact(name="x", tags=["raw"], description="one", **given)
    artifact.add_dir(data)
    artifact["rows"] = 7
    assert artifact.is_draft
    for read in (
        *(artifact["rows"].fetch, artifact.fetch, artifact.download),
        *(lambda: artifact.digest, lambda: artifact.version, lambda: artifact.open("a.txt")),
    ):
        with pytest.raises(InactiveRunError, match=r"save\(\)"):
            read()
    assert list(iter_runs(given["root"], models=True)) == []
    with pytest.raises(RunNotFoundError):
        opened(given, "x")
    assert artifact.save() is artifact.save()
    assert (artifact.version, artifact.aliases) == (1, ["latest"])
    assert (artifact["rows"].fetch(), artifact["sys/tags"].fetch()) == (7, {"raw"})
    with pytest.raises(InactiveRunError, match="is saved and never changes"):
        artifact.add_dir(data)
    for change in (
        lambda: artifact["objects"].upload_files(str(data)),
        lambda: artifact["objects"].delete_files("data/a.txt"),
        lambda: artifact.pop("objects"),
        lambda: artifact.assign({"objects": 1}),
    ):
        with pytest.raises(PathError, match="never changes"):
            change()
    artifact["later"] = "said"
    artifact.stop()
    with pytest.raises(ReadOnlyError):
        opened(given, "x")["later"] = 1
    with pytest.raises(KeyError), seamark.init_artifact(name="x", **given) as other:  # noqa: PT012
        other.add_file(data / "a.txt")
        raise KeyError
    (folder,) = iter_runs(given["root"], models=True)
    assert sorted(one.name for one in folder.path.parent.iterdir()) == [".numbers", folder.run]
    assert opened(given, "x")["later"].fetch() == "said"


def test_the_same_content_is_the_same_version(given):
    first = saved(given, "x", "1", tags=["one"])
    second = saved(given, "x", "2")
    again = saved(given, "x", "1", tags=["two"], description="again")
    assert (first.version, second.version, again.version) == (1, 2, 1)
    objects = [ArtifactObject("content.txt", 1, hashlib.sha256(b"1").hexdigest())]
    assert first.digest == again.digest == digest_of_objects(objects)
    found = opened(given, "x:1")
    assert found["sys/tags"].fetch() == {"one", "two"}
    assert found["sys/description"].fetch() == "again"
    journals = len(first.folder.journals())
    saved(given, "x", "1")
    assert len(first.folder.journals()) == journals  # it had nothing to say
    table = again.fetch_versions_table(columns=["sys/version", "sys/aliases"]).to_rows()
    told = [(row["sys/version"], row.get("sys/aliases")) for row in table]
    assert told == [(2, ["latest"]), (1, None)]


def test_the_version_that_was_given_an_alias_last_has_it(given):
    one, two = saved(given, "x", "1"), saved(given, "x", "2")
    one = seamark.init_artifact("x:1", **given)
    one.alias("best")
    one.stop()
    with seamark.init_artifact(f"x@sha256:{two.digest[:9]}", **given) as two:
        two.alias("best")
        assert two.aliases == ["best", "latest"]
    assert opened(given, "x:best").version == 2
    assert not opened(given, "x:1").exists("aliases/best")
    for alias in ("latest", "7", "a/b", ""):
        with pytest.raises((ArgumentError, PathError), match="alias"):
            one.alias(alias)


_TOGETHER = """
import os, sys, seamark
content = os.environ["CONTENT"]
artifact = seamark.init_artifact(name="x", project="team/p", root=sys.argv[1], tags=[content])
artifact.add_file(content, "file")
artifact.save()
print(artifact.digest, artifact.version)
artifact.stop()
"""


@pytest.mark.once
def test_processes_that_save_the_same_content_at_once_make_one_version(forks, given):
    for content in ("one", "two"):  # before: who adds a file that another writes is told so
        Path(content).write_text(content * 100)
    contents = [{"CONTENT": content} for content in ("one", "one", "two", "two")]
    ended = forks.run(_TOGETHER, str(given["root"]), environments=contents)
    told = {tuple(each.stdout.split()) for each in ended}
    numbers = dict(told)
    assert len(told) == len(numbers) == 2
    assert sorted(numbers.values()) == ["1", "2"]
    versions = list(iter_runs(given["root"], models=True))
    assert {one.run for one in versions} == numbers.keys()
    place = versions[0].path.parent
    assert {one.name for one in place.iterdir()} == {".numbers", *numbers}
    for digest in numbers:
        artifact = opened(given, f"x@sha256:{digest}")
        assert len(artifact["sys/tags"].fetch()) == 1
        artifact.download(digest)


_KILLED = """
import os, signal, sys
from pathlib import Path
import seamark
import seamark.index.index  # now, and not in each child
import seamark.registry.artifacts

LOOKED_AT = "draft.py", "reservations.py", "artifacts.py", "segment.py", "stream.py", "safe.py"
root, parts = Path(sys.argv[1]), int(sys.argv[2])
for name in "abc":
    Path(name).write_text(name)


def save(at, kill_at):
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(LOOKED_AT):
            return None
        seen += 1
        if seen == kill_at or kill_at < 0 and any(name[0] != "." for name in os.listdir(place)):
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    artifact = seamark.init_artifact(name="x", project="p", root=root / str(at), tags=["t"])
    for name in "abc":
        artifact.add_file(name)
    place = artifact.folder.path.parent
    sys.settrace(trace)
    artifact.save()
    sys.settrace(None)
    artifact.stop()
    return seen


events = save("whole", 0)
points = [1 + at * events // (parts - 1) for at in range(parts - 1)]
for at, point in enumerate([*points, -1]):  # the last: the first moment at which there is a version
    if (pid := os.fork()) == 0:
        save(at, point)
        os._exit(0)
    print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.once
def test_a_kill_leaves_a_draft_or_a_version(forks, tmp_path):
    """Whenever it comes; whoever saves the same content then has the whole version."""
    roots, parts = tmp_path / "roots", 8
    (done,) = forks.run(_KILLED, str(roots), str(parts), environments=[{}])
    assert done.code == 0, done.stderr
    assert done.stdout.split().count("9") > parts // 2, done.stdout  # they died on the way
    ends = set()
    for root in (roots / str(at) for at in range(parts)):
        where = {"project": "p", "root": root}
        versions = list(iter_runs(root, models=True))
        ends.add(len(versions))
        if versions:
            whole = opened(where, f"x@sha256:{versions[0].run}")
            assert tree(whole.download(root / "back")) == {"a": "a", "b": "b", "c": "c"}
            assert whole.version == 1
        with seamark.init_artifact(name="x", **where) as again:
            for name in "abc":
                again.add_file(name)
        assert again.version == 1
        assert again.download(root / "again").is_dir()
        drafts = list(again.folder.path.parent.glob(".draft-*"))
        assert len(drafts) == (not versions)
        if drafts:
            assert "removed" in outcome_of("purge", "--root", str(root)).output
            assert not drafts[0].exists()
    assert ends == {0, 1}


def test_purge_leaves_contents_that_another_version_or_a_draft_has(given):
    """Versions share the bytes of common contents; another project has its own."""
    one, two = {"both": "b" * 5000, "one": "1" * 6000}, {"both": "b" * 5000, "two": "2" * 7000}
    elsewhere = {**given, "project": "team/q"}
    first, second = (saved_files(given, "data", files) for files in (one, two))
    saved_files(elsewhere, "data", one)
    with seamark.init_artifact(name="data", **given) as draft:
        draft.add_file("both")
        for words in (["purge"], ["trash", "team/p/data:1"], ["purge", "team/p/data:1", "--yes"]):
            output_of(*words, "--root", str(given["root"]))
        draft.add_file("two", "more")
    assert not list(first.folder.path.glob("blobs/*"))
    assert {path.stat().st_nlink for path in second.folder.blobs_dir.iterdir()} == {2}
    assert tree(opened(given, "data:2").download("second")) == two
    assert tree(opened(elsewhere, "data:1").download("other")) == one
    whole = opened(given, f"data@sha256:{draft.digest}").download("draft")
    assert tree(whole) == {"both": "b" * 5000, "more": "2" * 7000}
    again = saved_files(given, "data", one)  # somebody wants it after all
    assert (again.digest, again.version) == (first.digest, 1)
    assert tree(opened(given, "data:1").download("again")) == one


def test_bytes_are_kept_once(given, data):
    (data / "large").write_bytes(os.urandom(1 << 21))
    with seamark.init_artifact(name="x", **given) as one:
        one.add_dir(data)
    (data / "a.txt").write_text("changed")
    with seamark.init_artifact(name="x", **given) as two:
        two.add_dir(data)
        two.add_dir(data, "twice")
    stored = [path.stat() for path in two.folder.blobs_dir.iterdir()]
    assert {each.st_size: each.st_nlink for each in stored} == {7: 1, 1: 2, 1 << 21: 2}
    shared = one.folder.blobs_dir / hashlib.sha256(b"b").hexdigest()
    shared.chmod(0o600)
    shared.write_text("x")  # of the same length
    with seamark.init_artifact(name="x", **given) as three:
        three.add_file(data / "in/b.txt")
    assert tree(three.download("back")) == {"b.txt": "b"}


def test_what_is_downloaded_is_what_was_saved(given, data, tmp_path):
    """Other bytes, more or less of them, are errors that say so, and no file has them then."""
    with seamark.init_artifact(name="x", **given) as artifact:
        artifact.add_dir(data)
    artifact = opened(given, "x:1")
    blob = artifact.folder.blobs_dir / hashlib.sha256(b"b").hexdigest()
    for content, why in (
        (b"", "have 0 bytes, expected 1"),
        (b"b" * 1_000_001, "have 1,000,001 bytes, expected 1"),
        (b"x", "its bytes differ from the record"),
    ):
        blob.write_bytes(content)
        with pytest.raises(FileMissingError, match=why):
            artifact.download("back")
        assert tree(Path("back")) == {"data/a.txt": "a"}
    artifact.download("unverified", verify=False)
    assert tree(Path("unverified"))["data/in/b.txt"] == "x"
    blob.unlink()
    with pytest.raises(FileMissingError, match="are not in"):
        artifact.download("back")
    blob.symlink_to(tmp_path / "root")
    with pytest.raises(FileMissingError, match="link"):
        artifact.open("data/in/b.txt")
    blob.unlink()
    blob.write_bytes(b"b")
    outside = tmp_path / "outside"
    outside.mkdir()
    Path("linked").mkdir()
    Path("linked/data").symlink_to(outside)
    with pytest.raises(FileMissingError, match="link"):
        artifact.download("linked")
    assert not any(outside.iterdir())


@pytest.mark.parametrize("name", ["a/../../out.txt", "other.txt"])
def test_a_strangers_journal_changes_no_version(given, data, name):
    """Whatever it says, its digest is another one; and nothing is written outside in any case."""
    with seamark.init_artifact(name="x", **given) as artifact:
        artifact.add_dir(data)
    digest = hashlib.sha256(b"b").hexdigest()

    def forge(folder):
        with seamark.Artifact(LogSession(folder, "offline")) as forged:
            forged.start()
            members = {name: {"name": "x", "size": 1, "sha256": digest}}
            op = {"op": "files", "path": "objects", "members": members}
            forged.session.recorder.writer.append_op(op)

    forge(artifact.folder)
    with pytest.raises(FileMissingError, match="differ from the saved ones"):
        opened(given, "x:1").download("back")
    assert not Path("back").exists()
    # Where the stranger made the digest, too:
    whole = digest_of_objects([ArtifactObject(name, 1, digest)])
    made = RunFolder(given["root"], artifact.folder.project, whole)
    forge(made)
    made.blobs_dir.mkdir()
    (made.blobs_dir / digest).write_text("b")
    if name == "other.txt":
        assert tree(opened(given, made.run).download("back")) == {name: "b"}
        return
    with pytest.raises(ArgumentError, match="stays inside"):
        opened(given, made.run).download("back")
    assert tree(Path("back")) == {}


def test_a_disabled_artifact_records_nothing_and_refuses_mistakes(data, tmp_path):
    given = {"project": "p", "root": tmp_path / "none", "mode": "disabled"}
    with seamark.init_artifact(name="x", **given) as artifact, seamark.init_run(**given) as run:
        artifact.add_dir(data)
        artifact.alias("best")
        run.mark_input("x:1")
        run.mark_output(artifact)
        with pytest.raises(ArgumentError):
            artifact.add_file(data / "a.txt", "../x")
    assert not (tmp_path / "none").exists()


def test_inputs_and_outputs_are_recorded_by_what_they_are(given, data):
    version = saved(given, "digits", "1")
    draft = seamark.init_artifact(name="draft", **given)
    Path("run.yaml").write_text("inputs:\n- digits:1\n- content.txt\n")
    with seamark.init_run(name="one", config_path="run.yaml", **given, **QUIET) as one:
        assert one["artifacts/inputs/digits"].fetch_hash() == version.digest
        assert one["artifacts/inputs/content.txt"].fetch_files_list()
    with seamark.init_model(key="NET", **given), seamark.init_run(**given, **QUIET) as run:
        run.mark_input(version)
        run.mark_input("digits:1")  # the same
        run.mark_input("team/p/digits:latest", name="again")
        run.mark_input(one, name="before")
        run.mark_input(data)
        run.mark_input(seamark.Reference("https://me:pw@git.lab/code@12af", "commit"), name="code")
        run.mark_output(seamark.init_model("NET", mode="read-only", **given))
        run.mark_output("s3://bucket/model.pt")
        found = {one.path: one.value for one in run.session.recorded.attributes("artifacts")}
        Path("digits:1").write_text("")
        for act, error, why in (
            (lambda: run.mark_input(one, name="code"), ArgumentError, "give this one a name="),
            (lambda: run.mark_input("nothing"), FileMissingError, "expected an existing path"),
            (lambda: run.mark_input("digits:7"), RunNotFoundError, "no artifact 'digits:7'.*no su"),
            (lambda: run.mark_output(7), ArgumentError, "expected a container"),
            (lambda: run.mark_input(draft), InactiveRunError, r"save\(\)"),
            (lambda: seamark.Reference("s3://x/y", "?"), ArgumentError, "kind: expected one of"),
            (lambda: run.mark_input("digits:1"), ArgumentError, "is a path and an artifact"),
        ):
            with pytest.raises(error, match=why):
                act()
        run.mark_input("./digits:1", name="the file")
    inputs = "artifacts/inputs"
    of = {"kind": "artifact", "project": "team/p", "name": "digits", "id": version.digest}
    assert found[f"{inputs}/digits"]["of"] == {**of, "version": 1}
    assert found[f"{inputs}/again"]["hash"] == found[f"{inputs}/digits"]["hash"] == version.digest
    assert found[f"{inputs}/code"]["of"] == {"kind": "commit", "uri": "https://git.lab/code@12af"}
    assert [one["path"] for one in found[f"{inputs}/data"]["files"]] == ["a.txt", "in/b.txt"]
    assert found["artifacts/outputs/NET"]["of"]["kind"] == "model"
    assert found["artifacts/outputs/model.pt"]["references"] == ["s3://bucket/model.pt"]
    draft.stop()


def test_lineage_goes_over_generations_and_shows_a_circle_once(given):
    raw = saved(given, "raw", "raw")
    clean = saved(given, "clean", "clean")
    Path("w.pt").write_text("weights")
    names = ("prepare", "train", "evaluate", "apart")
    runs = {name: seamark.init_run(name=name, **given, **QUIET) for name in names}
    runs["prepare"].mark_input(raw)
    runs["prepare"].mark_output(clean)
    runs["train"].mark_input("clean:1")
    runs["train"].mark_output("w.pt")
    runs["evaluate"].mark_input("w.pt")
    runs["evaluate"].mark_input(runs["train"], name="of")
    runs["evaluate"].mark_output(raw, name="back")  # a circle
    runs["apart"].mark_output("content.txt")
    lineage = runs["train"].lineage()
    for run in runs.values():
        run.stop()
    told = {key: one.label.removeprefix("team/p/") for key, one in lineage.nodes.items()}
    assert {*told.values()} == {"raw:1", "clean:1", "w.pt", "prepare", "train", "evaluate"}
    assert {(told[one.source], told[one.target]) for one in lineage.edges} == {
        *(("raw:1", "prepare"), ("prepare", "clean:1"), ("clean:1", "train")),
        *(("train", "w.pt"), ("w.pt", "evaluate"), ("train", "evaluate"), ("evaluate", "raw:1")),
    }
    assert str(lineage).count("(shown above)") >= 2
    where = ("--root", str(given["root"]))
    assert output_of("lineage", "train", *where).rstrip() == str(lineage)
    document = json.loads(output_of("lineage", "raw:1", "--json", *where))
    assert document["start"] == raw.digest
    labels = {one.label for one in lineage.nodes.values()}
    assert {one["label"] for one in document["nodes"]} == labels
    assert labels >= {"team/p/raw:1", "team/p/train", "w.pt"}
    alone = seamark.init_run("apart", mode="read-only", **given).lineage()
    assert len(alone.nodes) == 2
    assert "comes from: nothing that is known" in str(alone)


def test_commands_take_artifacts_by_their_names(given):
    def command(*words):
        return output_of(*words, "--root", str(given["root"]))

    one, two = saved(given, "digits", "1"), saved(given, "digits", "2")
    rows = json.loads(command("ls", "--kind", "artifact", "--json"))
    assert [(row["sys/name"], row["sys/version"]) for row in rows] == [("digits", 2), ("digits", 1)]
    assert two.digest[:12] in command("ls", "--kind", "artifact")
    assert one.digest in command("show", "digits:1")
    command("tag", "digits:latest", "--add", "good")
    project = seamark.init_project("team", root=given["root"], mode="read-only")
    table = project.fetch_artifacts_table(columns=["sys/version", "sys/tags"])
    assert table.to_rows() == [{"sys/id": two.digest, "sys/version": 2, "sys/tags": ["good"]}]
    command("trash", "digits:2")
    assert opened(given, "digits").version == 1
    assert saved(given, "digits", "2").version == 2  # whoever saves it again wants it
    assert opened(given, "digits").version == 2
    command("trash", "digits:2")
    command("purge", "--yes")
    with pytest.raises(RunNotFoundError):
        opened(given, "digits:2")
    assert saved(given, "digits", "3").version == 3
    assert saved(given, "digits", "2").version == 2
    assert command("fsck", "--blobs")


def test_artifacts_have_a_root_of_their_own(monkeypatch, tmp_path):
    """SEAMARK_ARTIFACT_DIR names it; runs find them there, and after that where they are."""
    large = tmp_path / "large"
    given: dict[str, Any] = {"project": "team/p"}
    saved(given, "here", "1")
    monkeypatch.setenv("SEAMARK_ARTIFACT_DIR", str(large))
    artifact = saved(given, "data", "2")
    assert artifact.folder.root == large
    assert [one.path for one in opened(given, "data:1").objects] == ["content.txt"]
    with seamark.init_run(**given, **QUIET) as run:
        run.mark_input("data:1")
        run.mark_input("here:1")
    assert run.folder.root != large
    for name in ("data", "here"):
        assert run.exists(f"artifacts/inputs/{name}")
    elsewhere = saved({**given, "root": tmp_path / "named"}, "data", "3")
    assert elsewhere.folder.root == tmp_path / "named"

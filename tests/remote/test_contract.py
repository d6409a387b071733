"""Every remote of ours keeps the promises of the contract; those of other packages are found."""

from __future__ import annotations

import sys

import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.remote.schemes import canonical, open_remote, schemes
from seamark.remote.sync import sync_run, unsent_data
from seamark.testing import RemoteContract

THIRD_PARTY = """
from pathlib import Path
from types import SimpleNamespace

from seamark.remote.file import FileRemote

SIX = ("journals", "send", "send_gap", "missing_blobs", "put_blob", "close")


def open_folder(uri, token):
    remote = FileRemote(Path(uri.partition("://")[2]))
    return SimpleNamespace(**{name: getattr(remote, name) for name in SIX})


def open_broken(uri, token):
    raise RuntimeError("no such bucket")


def open_needy(uri, token):
    import a_package_that_nobody_has


def open_partly(uri, token):
    return object()
"""


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """Install a package with remotes, as an installer does."""
    info = tmp_path / "site" / "lab_remotes-1.0.dist-info"
    info.mkdir(parents=True)
    (info.parent / "lab_remotes.py").write_text(THIRD_PARTY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab-remotes\nVersion: 1.0\n")
    openers = {"lab": "folder", "https": "broken"}
    openers |= {name: name for name in ("broken", "needy", "partly")}
    points = [f"{scheme} = lab_remotes:open_{what}\n" for scheme, what in openers.items()]
    (info / "entry_points.txt").write_text("[seamark.remotes]\n" + "".join(points))
    monkeypatch.syspath_prepend(str(info.parent))
    yield
    sys.modules.pop("lab_remotes", None)


class TestFile(RemoteContract):
    @pytest.fixture
    def remote(self, tmp_path):
        return open_remote((tmp_path / "elsewhere").as_uri())

    def stored_journal(self, remote, run, journal):
        return (remote.root / run.project / run.run / "journal" / journal).read_bytes()

    def stored_blob(self, remote, run, digest):
        return (remote.root / run.project / run.run / "blobs" / digest).read_bytes()

    @pytest.mark.parametrize("kept", [0, 20, 32, 60, 300, -1])
    def test_a_sender_that_was_killed_in_a_record(self, remote, tmp_path, kept):
        """The file is completed: no record is lost, none is there twice."""
        with seamark.init_run("p", root=tmp_path / "here", **QUIET) as run:
            run["loss"].extend([1.0] * 20)
        (journal,) = RunFolder(tmp_path / "here", "p", run.id).journals()
        whole = journal.path.read_bytes()
        there = RunFolder(remote.root, "p", run.id).journal_dir
        there.mkdir(parents=True)
        (there / journal.path.name).write_bytes(whole[:kept])
        done = sync_run(unsent_data(RunFolder(tmp_path / "here", "p", run.id), remote), remote)
        assert (done.problems, (there / journal.path.name).read_bytes()) == ([], whole)


@pytest.mark.usefixtures("third_party")
class TestThirdParty(RemoteContract):
    """As in `docs/howto/remotes.md`: six methods, and nothing but the fixture."""

    @pytest.fixture
    def remote(self, third_party, tmp_path):
        return open_remote(f"lab://{tmp_path}/there", None)


@pytest.mark.usefixtures("third_party")
def test_runs_are_sent_to_a_remote_of_another_package(tmp_path):
    with seamark.init_run("p", root=tmp_path / "here", remote=f"lab://{tmp_path}/there") as run:
        run["loss"].append(1.0)
    there = RunFolder(tmp_path / "there", "p", run.id)
    for here in run.folder.journals():
        assert (there.journal_dir / here.path.name).read_bytes() == here.path.read_bytes()
    assert "lab" in schemes()
    with pytest.raises(ArgumentError, match="did you mean lab://"):
        canonical("lap://there")


@pytest.mark.usefixtures("third_party")
def test_an_error_of_a_package_names_it():
    with pytest.raises(SeamarkError, match=r"lab-remotes \(lab_remotes:open_broken\).*no such buc"):
        open_remote("broken://x")
    with pytest.raises(SeamarkError, match="needs a_package_that_nobody_has"):
        open_remote("needy://x")
    with pytest.raises(SeamarkError, match=r"lacks.*journals"):
        open_remote("partly://x")
    assert type(open_remote("https://lab.example")).__name__ == "HttpRemote"


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("htps://lab", "did you mean https://"),
        ("lab.example", "expected a URI"),
        ("/mnt/runs", "did you mean 'file:///mnt/runs'"),
        ("http://lab.example", "expected https"),
        ("https://user:secret@lab.example", r"without a user or a token"),
        ("https://lab.example?token=1", "without '\\?'"),
        ("https://lab.example:99999", "expected the address"),
        ("file://host/folder", "file:///folder"),
        ("file://", "expected a URI"),
    ],
)
def test_an_address_that_cannot_be_used_says_why(uri, told):
    with pytest.raises(ArgumentError, match=told) as error:
        canonical(uri)
    assert "secret" not in str(error.value)


def test_one_place_has_one_name():
    assert canonical("HTTPS://Lab.Example:443/") == "https://lab.example"
    assert canonical("http://[::1]:80/x/") == "http://[::1]/x"
    assert canonical("https://lab.org/seamark/api/v1/") == "https://lab.org/seamark"
    assert canonical("file:///mnt/../mnt/runs/") == "file:///mnt/runs"

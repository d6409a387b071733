"""The root that is meant where nobody names one."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner
from command import app

from seamark import init_run
from seamark.errors import ArgumentError
from seamark.journal.folder import nearest_root, root_dir

OTHER = 54321
"""A user id that nobody has."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


@pytest.fixture
def inner(tmp_path, monkeypatch):
    """Work in a folder two below the project, in somebody's home."""
    folder = tmp_path / "home" / "project" / "src" / "train"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


def make(folder):
    made = folder / ".seamark"
    made.mkdir()
    return made


def test_the_nearest_folder_upwards_is_the_root(inner, tmp_path):
    """Files are not, and links only if they lead to a folder."""
    assert nearest_root() == inner / ".seamark"
    assert not nearest_root().exists()
    for folder in (inner.parents[2], inner.parents[1]):
        made = make(folder)
        assert nearest_root() == made
    (inner / ".seamark").touch()
    link = inner.parent / ".seamark"
    link.symlink_to("nowhere")
    assert nearest_root() == made
    link.unlink()
    (tmp_path / "disk").mkdir()
    link.symlink_to(tmp_path / "disk")
    assert nearest_root() == link
    (inner / ".seamark").unlink()
    made = make(inner)
    assert nearest_root() == made


def test_home_is_the_last_folder_that_is_looked_in(inner, tmp_path, monkeypatch):
    make(tmp_path)
    assert nearest_root() == inner / ".seamark"
    (tmp_path / "me").symlink_to(tmp_path / "home")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert nearest_root() == inner / ".seamark"
    made = make(tmp_path / "home")
    assert nearest_root() == made


@pytest.mark.root
@as_root
def test_a_folder_of_somebody_else_is_not_looked_in(inner):
    make(inner.parents[1])
    os.chown(inner.parents[0], OTHER, OTHER)
    assert nearest_root() == inner / ".seamark"
    os.chown(inner.parents[0], os.geteuid(), -1)
    assert nearest_root() == inner.parents[1] / ".seamark"
    os.chown(inner, OTHER, OTHER)
    assert nearest_root() == inner / ".seamark"


@pytest.mark.root
@as_root
@pytest.mark.parametrize("where", ["above", "behind a link", "a link"])
def test_a_root_of_somebody_else_has_to_be_named(inner, tmp_path, where):
    if where == "above":
        found = make(inner.parents[1])
    else:
        (tmp_path / "disk").mkdir()
        found = inner / ".seamark"
        found.symlink_to(tmp_path / "disk")
    os.chown(found, OTHER, OTHER, follow_symlinks=where != "a link")
    says = rf"root: {found} belongs to uid {OTHER}, not to root \(uid 0\)"
    with pytest.raises(ArgumentError, match=f"{says}.*--root.*root=.*SEAMARK_DIR"):
        root_dir()
    with pytest.raises(ArgumentError, match=says):
        init_run()
    init_run(mode="disabled").stop()  # which touches nothing
    assert root_dir(found) == found
    with init_run(root=found, capture={"git": False}) as run:
        pass
    assert run.root == found


def test_recording_goes_where_reading_looks(inner, capsys, monkeypatch):
    made = make(inner.parents[1])
    init_run(capture={"git": False}).stop()
    (folder,) = (made / "default").iterdir()
    said = capsys.readouterr().err
    assert f"recording to ../../.seamark/default/{folder.name} " in said
    assert "--root" not in said
    other = inner.parent / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert folder.name in CliRunner().invoke(app, ["ls"]).stdout


def test_a_working_directory_that_is_gone_is_an_exact_error(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ArgumentError, match="the working directory no longer exists"):
        nearest_root()

"""What is installed is recorded as a requirements file."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from pathlib import Path

import pytest

from seamark.capture.code.code import conda_packages, installed_packages

RECORDED = Path(__file__).parents[2] / "data" / "conda"


def plain(line: str) -> str:
    """Return name and version of a package that is edited where it lies."""
    return line.partition("  # ")[2] if line.startswith("-e ") else line


def test_packages_are_those_of_importlib_metadata_sorted_and_each_once():
    lines = [plain(line) for line in installed_packages().splitlines()]
    expected = {
        f"{one.metadata['Name']}=={one.version}" for one in importlib.metadata.distributions()
    }
    assert {line for line in lines if " @ " not in line} <= expected
    assert "pytest==" + importlib.metadata.version("pytest") in lines
    keys = [re.sub(r"[-_.]+", "-", re.split("==| @ ", line)[0]).lower() for line in lines]
    assert keys == sorted(set(keys))


def test_first_distribution_on_the_path_counts(tmp_path, monkeypatch):
    for folder, version in (("first", "2.0"), ("second", "1.0")):
        info = tmp_path / folder / "some_package-9.dist-info"
        info.mkdir(parents=True)
        text = f"Metadata-Version: 2.1\nName: Some.Package\nVersion: {version}\n\nName: not-this\n"
        (info / "METADATA").write_text(text)
    damaged = tmp_path / "first" / "damaged-1.dist-info"
    damaged.mkdir()
    (damaged / "METADATA").write_bytes(b"\xff\xfe no")
    (tmp_path / "first" / "empty-1.dist-info").mkdir()
    monkeypatch.setattr("sys.path", [str(tmp_path / "first"), str(tmp_path / "second")])
    assert installed_packages() == "Some.Package==2.0"


GIT = {"vcs": "git", "commit_id": "0123abcd", "requested_revision": "main"}
WHEEL = "https://host/w-1.0-py3-none-any.whl"
DAMAGED = [
    *("", "{", "[]", "[" * 100_000, "{}" + " " * (1 << 17)),
    *({"url": 1}, {"url": "file:///a\nb==1"}),
]


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        (
            {"url": "https://me:hunter2@host/a.git", "vcs_info": GIT, "subdirectory": "python/pkg"},
            "some @ git+https://host/a.git@0123abcd#subdirectory=python/pkg",
        ),
        (
            {"url": f"{WHEEL}?token=hunter2", "archive_info": {"hash": "sha256=0f"}},
            f"some @ {WHEEL}",
        ),
        ({"url": "file:///src/local", "dir_info": {}}, "some @ file:///src/local"),
        ({"url": "file:///src/x", "dir_info": {"editable": True}}, "-e /src/x  # some==1.0"),
        *((noted, "some==1.0") for noted in DAMAGED),
    ],
)
def test_package_from_no_index_tells_its_origin_without_credentials(
    tmp_path, monkeypatch, noted, line
):
    """As pip freeze writes it; a damaged note counts for nothing."""
    info = tmp_path / "some-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some\nVersion: 1.0\n")
    text = noted if isinstance(noted, str) else json.dumps(noted)
    (info / "direct_url.json").write_text(text)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert installed_packages() == line


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    return tmp_path


def test_conda_environment_is_listed_with_versions_and_builds(monkeypatch):
    monkeypatch.setenv("CONDA_PREFIX", str(RECORDED))
    assert conda_packages().splitlines() == [
        "_libgcc_mutex=0.1=conda_forge",
        "ca-certificates=2024.7.2=h06a4308_0",
        "cuda-nvtx=12.1.66=0",
        "numpy=1.26.4=py311h64a7726_0",
        "python=3.11.9=hb806964_0_cpython",
        "tzdata=2024a=h0c530f3_0",
    ]


def test_files_that_are_no_conda_package_are_not_listed(prefix):
    meta = prefix / "conda-meta"
    for name in ("noname.json", "history", "line\nfeed-1-0.json"):
        (meta / name).write_text("{}")
    os.mkfifo(meta / "pytorch-2.0.1-py3.10_cuda11.7_cudnn8.5.0_0.json")
    assert conda_packages() == "pytorch=2.0.1=py3.10_cuda11.7_cudnn8.5.0_0"


def test_conda_environment_of_python_counts_where_none_is_activated(monkeypatch, prefix):
    (prefix / "conda-meta" / "a-1-0.json").write_text("{}")
    monkeypatch.delenv("CONDA_PREFIX")
    monkeypatch.setattr("sys.prefix", str(prefix))
    assert conda_packages() == "a=1=0"
    monkeypatch.setenv("CONDA_PREFIX", str(prefix / "missing"))
    assert conda_packages() == "a=1=0"
    monkeypatch.setattr("sys.prefix", str(prefix / "missing"))
    assert conda_packages() == ""

"""A conda environment is read from its own files, whatever stands in them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from seamark.capture.code.conda import conda_packages

RECORDED = Path(__file__).parents[2] / "data" / "conda"


@pytest.fixture
def prefix(tmp_path, monkeypatch) -> Path:
    (tmp_path / "conda-meta").mkdir()
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path))
    return tmp_path


def package(prefix: Path, name: str, **noted) -> None:
    (prefix / "conda-meta" / f"{name}.json").write_text(json.dumps(noted))


def test_a_recorded_environment_is_listed(monkeypatch):
    """Channel, name, version and build, as a command line takes them; sorted by name."""
    monkeypatch.setenv("CONDA_PREFIX", str(RECORDED))
    assert conda_packages().splitlines() == [
        "conda-forge::_libgcc_mutex=0.1=conda_forge",
        "pkgs/main::ca-certificates=2024.7.2=h06a4308_0",
        "nvidia/label/cuda-12.1.0::cuda-nvtx=12.1.66=0",
        "conda-forge::numpy=1.26.4=py311h64a7726_0",
        "conda-forge::python=3.11.9=hb806964_0_cpython",
        "conda-forge::tzdata=2024a=h0c530f3_0",
    ]


def test_a_channel_is_named_without_its_token_and_password(prefix):
    """Servers of companies have them in the address."""
    package(prefix, "a-1-0", channel="https://host/t/to-12ab/team/linux-64")
    package(prefix, "b-1-0", channel="https://me:hunter2@host/conda/noarch?x=hunter2")
    package(prefix, "c-1-0", channel="https://h/get/ent-7f/token/hunter2/chan/linux-64")
    assert conda_packages().splitlines() == [
        "https://host/team::a=1=0",
        "https://host/conda::b=1=0",
        "https://h/chan::c=1=0",
    ]


def test_what_is_damaged_says_what_its_name_says_or_nothing(prefix):
    """Never an error."""
    meta = prefix / "conda-meta"
    (meta / "half-1.0-0.json").write_text('{"channel": "https://conda.ana')
    (meta / "bytes-1.0-0.json").write_bytes(b"\xff\xfe\0\0")
    (meta / "odd-1.0-0.json").write_text('{"channel": 3}')
    (meta / "nested-1.0-0.json").write_text("[" * 100_000)
    (meta / "noname.json").write_text("{}")
    (meta / "history").write_text("==> now <==\n")
    (meta / "line\nfeed-1-0.json").write_text("{}")
    (meta / ("x" * 200 + "-1-" + "y" * 40 + ".json")).mkdir()
    os.mkfifo(meta / "pipe-1.0-0.json")
    (meta / "link-1.0-0.json").symlink_to("/etc/passwd")
    assert conda_packages().splitlines() == [
        "bytes=1.0=0",
        "half=1.0=0",
        "nested=1.0=0",
        "odd=1.0=0",
    ]


def test_without_conda_there_is_nothing(monkeypatch, tmp_path):
    """No variable, or a folder that is none."""
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert conda_packages() == ""
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "missing"))
    assert conda_packages() == ""


def test_the_environment_of_python_counts_where_none_is_activated(monkeypatch, prefix):
    """A cluster job calls its Python by path."""
    package(prefix, "a-1-0")
    monkeypatch.delenv("CONDA_PREFIX")
    monkeypatch.setattr("sys.prefix", str(prefix))
    assert conda_packages() == "a=1=0"

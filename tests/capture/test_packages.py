"""What is installed is recorded as a requirements file."""

from __future__ import annotations

import importlib.metadata
import platform
import re

from seamark.capture.packages import installed_packages, python_version


def test_every_distribution_stands_there_with_its_version():
    """The same names and versions as importlib.metadata tells, sorted, each once."""
    lines = installed_packages().splitlines()
    expected = {
        f"{one.metadata['Name']}=={one.version}" for one in importlib.metadata.distributions()
    }
    assert set(lines) <= expected
    assert "pytest==" + importlib.metadata.version("pytest") in lines
    keys = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert keys == sorted(set(keys))


def test_the_first_one_on_the_path_counts(tmp_path, monkeypatch):
    """As for imports."""
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


def test_python_names_its_version():
    """Three numbers."""
    assert python_version() == platform.python_version()

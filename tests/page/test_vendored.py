"""The libraries of the page and of its tests are those that were fetched."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path

VENDOR = files("seamark.page") / "static" / "vendor"
KNOWN = json.loads((VENDOR / "versions.json").read_text())
OF_TESTS = Path(__file__).parent / "browser" / "vendor"


def test_vendored_files_are_unchanged():
    """`nox -s vendor` writes those of the page."""
    for name, digest in KNOWN["sha256"].items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    digest = hashlib.sha256((OF_TESTS / "axe.min.js").read_bytes()).hexdigest()
    assert digest in (OF_TESTS / "README.md").read_text(encoding="utf-8")


def test_every_vendored_file_is_listed_and_has_its_licence():
    licences = (VENDOR / "LICENSES.txt").read_text()
    there = {one.name for one in VENDOR.iterdir()}
    assert there == {*KNOWN["sha256"], "versions.json", "LICENSES.txt"}
    fetched = {name for one in KNOWN["packages"].values() for name in one["files"]}
    assert fetched == {*KNOWN["sha256"]}
    for name, one in KNOWN["packages"].items():
        assert f"{name} {one['version']} (" in licences

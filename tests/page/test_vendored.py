from __future__ import annotations

import hashlib
import json
from importlib.resources import files

import pytest

VENDOR = files("seamark.page") / "static" / "vendor"
KNOWN = json.loads((VENDOR / "versions.json").read_text())


@pytest.mark.parametrize("name", sorted(KNOWN["sha256"]))
def test_a_vendored_file_is_what_was_fetched(name):
    made = hashlib.sha256((VENDOR / name).read_bytes()).hexdigest()

    assert made == KNOWN["sha256"][name], "changed by hand? `nox -s vendor` writes these files"


def test_every_vendored_file_is_known_and_every_licence_comes_along():
    there = {one.name for one in VENDOR.iterdir()}
    licences = (VENDOR / "LICENSES.txt").read_text()

    assert there == {*KNOWN["sha256"], "versions.json", "LICENSES.txt"}
    assert {*KNOWN["sha256"]} == {
        name for one in KNOWN["packages"].values() for name in one["files"]
    }
    for name, one in KNOWN["packages"].items():
        assert f"{name} {one['version']} (" in licences

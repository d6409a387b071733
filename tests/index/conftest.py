"""The hand-made journals of the store's tests, for what lies in folders."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[1] / "store" / "conftest.py"
_spec = importlib.util.spec_from_file_location("seamark_tests_store_conftest", _FILE)
assert _spec is not None
assert _spec.loader is not None
_store = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_store)

builder = _store.builder
folder = _store.folder

"""Import a module, or look up names in it: ``one_import.py [MODULE[:NAME]]``; print what came."""

from __future__ import annotations

import importlib
import json
import sys
import time

begun = time.perf_counter()
for argument in sys.argv[1:]:
    module, _, name = argument.partition(":")
    imported = importlib.import_module(module)
    if name:
        getattr(imported, name)
took_s = time.perf_counter() - begun
heavy = {"torch", "pandas", "sqlalchemy", "numpy", "rich", "zstandard", "lightning"}
print(json.dumps({"import_s": took_s, "heavy": sorted(heavy & set(sys.modules))}))

"""Import a module, or nothing, and print what that brought: ``one_import.py [MODULE]``."""

from __future__ import annotations

import importlib
import json
import sys
import time

begun = time.perf_counter()
for name in sys.argv[1:]:
    importlib.import_module(name)
took_s = time.perf_counter() - begun
heavy = {"torch", "pandas", "sqlalchemy", "numpy", "rich", "zstandard", "lightning"}
print(json.dumps({"import_s": took_s, "heavy": sorted(heavy & set(sys.modules))}))

"""Fill a store of MLflow: ``write_mlflow.py RUNS PARAMS SERIES POINTS``; see `mlflow_store`."""

from __future__ import annotations

import json
import sys

from mlflow_store import fill

print(json.dumps({"run": fill(*map(int, sys.argv[1:]))}))

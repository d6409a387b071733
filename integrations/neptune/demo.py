"""A study whose callback imports neptune: run it with ``python -m seamark.neptune demo.py``."""

from __future__ import annotations

import neptune
import optuna
from neptune.integrations.optuna import NeptuneCallback

with neptune.init_run(project="team/study") as run:
    study = optuna.create_study()
    study.optimize(
        lambda trial: trial.suggest_float("x", -1, 1) ** 2,
        n_trials=5,
        callbacks=[NeptuneCallback(run, plots_update_freq="never")],
    )

"""What names of other programs are called here: for the messages of errors, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ARGUMENTS", "FUNCTIONS", "VERBS", "also"]

_METRICS: Final = "run.log_metrics(metrics, step, phase=..., epoch=...) records metrics"
_PARAMS: Final = "run.params.update(...) records parameters"
_INIT: Final = "seamark.init_run(project, ...) makes a run, and with_id= opens one"
_SYNC: Final = "seamark.sync(what, to) sends runs and artifacts elsewhere"
_STOP: Final = "run.stop() ends it, or leaving `with run:`"

VERBS: Final[Mapping[str, str]] = {
    "add_tags": 'run["tags"] = {...} records keyed tags, run["sys/tags"].add(...) plain ones',
    "capture_output": "what is printed is recorded unasked: capture_stdout=, capture_limit=",
    "config": _PARAMS,
    "finish": _STOP,
    "hparams": _PARAMS,
    "labels": 'run["sys/tags"] holds tags',
    "log": _METRICS,
    "log_arguments": _PARAMS,
    "log_artifact": 'run["path"].upload(...) records a file, run.mark_output(...) an artifact',
    "log_code": "code is recorded unasked: source_files= and code_version= say more",
    "log_directory": 'run["path"].upload_files(...) records a folder',
    "log_file": 'run["path"].upload(...) records a file',
    "log_metadata": 'run["metadata"] = {...} records it',
    "log_metric": _METRICS,
    "log_param": _PARAMS,
    "log_params": _PARAMS,
    "metrics": 'run["path"].fetch_points() reads a metric, run.report() the last of each',
    "set_status": "run.set_state(...) says how it is doing",
    "show_eta": "run.progress(iterable, name) tells how far a loop is",
    "status": "run.state says how it is doing",
    "summary": 'every series has its summaries: project.fetch_runs_table(columns=["loss:min"])',
    "upload": _SYNC,
    "use_artifact": "run.mark_input(...) records what the run reads",
}
"""By the name of what others do with a run."""

FUNCTIONS: Final[Mapping[str, str]] = {
    "TrackClient": _INIT,
    "create_artifact": "seamark.init_artifact(name=...) makes one",
    "create_run": _INIT,
    "finish": _STOP,
    "load_artifact": "seamark.init_artifact(NAME:VERSION) opens one",
    "load_run": _INIT,
    "log": _METRICS,
    "start_run": _INIT,
    "upload": _SYNC,
}
"""By the name of a function of another package."""

ARGUMENTS: Final[Mapping[str, str]] = {
    "auto_upload": "remote",
    "config": "params",
    "conflict_strategy": "conflict",
    "dir": "root",
    "experiment_name": "project",
    "folder": "project",
    "group": "groups",
    "hparams": "params",
    "hyperparameters": "params",
    "id": "with_id",
    "labels": "tags",
    "make_folder": "make_project",
    "notes": "description",
    "parameters": "params",
    "run_id": "with_id",
    "run_name": "name",
    "save_dir": "root",
    "tracking_uri": "remote",
}
"""By the name of an argument of another package: the argument here."""


def also(words: Mapping[str, str], name: str) -> str:
    """Return what ends the message about a name that is not here: nothing if nobody has it.

    Args:
        words: `VERBS` or `FUNCTIONS`.
        name: The name that is not here.
    """
    return f": {words[name]}" if name in words else ""

"""Interface to Lightning, arguments of older loggers, and settings of a training.

``lightning`` and ``pytorch_lightning`` contain the same code with unrelated classes. Seamark's
classes derive from those of each package that is already imported, because ``LightningCLI`` accepts
only subclasses of its own package's classes. The other package is not imported.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import torch

from seamark.capture import Secrets
from seamark.errors import ArgumentError, MissingExtraError
from seamark.options.run_options import VERBS
from seamark.paths import is_device
from seamark.process.interrupts import let_pass
from seamark.process.rank import current_rank
from seamark.run.adapters import batch_size, guarded
from seamark.types import File
from seamark.values import Atom

_Class = TypeVar("_Class")
_NAMES: Final = ("lightning.pytorch", "pytorch_lightning")
_STOPPED_BY_SIGNAL: Final = frozenset({"SIGTERMException", "ExitGracefullyException"})


def _find_packages() -> list[str]:
    loaded = [name for name in _NAMES if sys.modules.get(name) is not None]
    installed = [name for name in _NAMES if importlib.util.find_spec(name.partition(".")[0])]
    if not installed:
        raise MissingExtraError(
            "seamark.lightning needs PyTorch Lightning, which is not installed: "
            "pip install 'seamark[lightning]' (or the package lightning)"
        )
    return loaded or installed[:1]


PACKAGES: Final = _find_packages()


def _base(module: str, name: str) -> Any:
    found = [getattr(importlib.import_module(f"{one}.{module}"), name) for one in PACKAGES]
    return found[0] if len(found) == 1 else type(name, tuple(found), {"__module__": __name__})


# Of type Any, so that types can be checked without Lightning.
Callback = _base("callbacks.callback", "Callback")
Profiler = _base("profilers.profiler", "Profiler")
VERSION: Final = str(sys.modules[PACKAGES[0]].__version__)


class RunLogger(_base("loggers.logger", "Logger")):  # type: ignore[misc]
    """Protocol of a logger that records into a run, for callbacks and the profiler."""


def configurable(cls: type[_Class]) -> type[_Class]:
    # Evaluate the annotations of a constructor that ``LightningCLI`` reads. The jsonargparse that
    # LightningCLI 1.9 uses does not evaluate those that are strings.
    init = cls.__init__
    init.__annotations__.update(get_type_hints(init))
    return cls


def model_summary(model: Any, max_depth: int = -1) -> str:
    """Return Lightning's table of layers for a ``LightningModule`` of either package."""
    summary: Any = importlib.import_module(f"{PACKAGES[0]}.utilities.model_summary")
    modes = [(module, module.training) for module in model.modules()]
    text = str(summary.ModelSummary(model, max_depth=max_depth))
    for module, mode in modes:  # with an example input, 1.9 leaves all layers in that of the model
        module.training = mode
    return text


def folder_name(name: str) -> str:
    """Return free text as a portable file name of at most 84 characters."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:80].rstrip(".")
    return f"run-{safe}".rstrip("-") if not safe or is_device(safe) else safe


def state_after(
    status: str, error: BaseException | None
) -> tuple[str | None, BaseException | None]:
    """Return the run's state after a stage, None for an unknown status, and the error."""
    if status == "failed":
        names = {cls.__name__ for cls in type(error).__mro__}
        stopped = isinstance(error, KeyboardInterrupt) or names & _STOPPED_BY_SIGNAL
        return ("interrupted" if stopped else "failed"), error
    # A job that was requeued by SLURM is "finished".
    return {"success": "completed", "finished": "suspended"}.get(status), None


_LEGACY: Final[Mapping[str, str]] = {
    "project_name": "project=...",
    "offline_mode": "mode='offline' (a run without a remote is offline anyway)",
    "experiment_name": "name=...",
    "experiment_id": "with_id=...",
    "properties": "logger.experiment['properties'] = ...",
    "upload_source_files": "source_files=[...]",
    "abort_callback": "nothing: runs cannot be stopped from outside",
    "logger": "seamark.integrations.python_logger.NeptuneHandler(run=logger.experiment), a handler",
    "upload_stdout": "capture_stdout=...",
    "upload_stderr": "capture_stderr=...",
    "send_hardware_metrics": "capture_hardware_metrics=...",
    "run_monitoring_thread": "capture_hardware_metrics=...",
    "handle_uncaught_exceptions": "capture_traceback=...",
    "git_info": "git_ref=...",
    "hostname": "capture={'host': ...}",
    "notebook_id": "logger.experiment['notebook/id'] = ...",
    "notebook_path": "logger.experiment['notebook/path'] = ...",
    "base_namespace": "prefix=...",
    "close_after_fit": "nothing: the run continues until logger.experiment.stop() or the exit",
}


def check_legacy(given: Iterable[str]) -> None:
    """Raise `ArgumentError` with the replacement for keywords of earlier loggers."""
    if found := [name for name in given if name in _LEGACY]:
        advice = "\n".join(f"  {name}: use {_LEGACY[name]}" for name in found)
        raise ArgumentError(
            f"SeamarkLogger: expected current keywords, got {', '.join(found)} of older "
            f"loggers.\n{advice}"
        )


class DeprecatedMethods(RunLogger):
    """Deprecated methods: four warn and still work; errors for others name the replacement."""

    ARTIFACTS_KEY = "artifacts"
    PARAMETERS_KEY = "hyperparams"

    def __getattr__(self, name: str) -> Any:
        advice = f": with run = logger.experiment, {VERBS[name]}" if name in VERBS else ""
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{advice}", name=name, obj=self
        )

    def log_metric(self, metric_name: str, metric_value: Any, step: float | None = None) -> None:
        """Append one value to a series. Deprecated: ``logger.run[path].append(value)``."""
        self._append("log_metric", "42", metric_name, metric_value, step)

    def log_text(self, log_name: str, text: str, step: float | None = None) -> None:
        """Append one text to a series. Deprecated: ``logger.run[path].append(text)``."""
        self._append("log_text", "'text'", log_name, str(text), step)

    def log_image(self, log_name: str, image: Any, step: float | None = None) -> None:
        """Append an image to a series. Deprecated: ``logger.run[path].append(File...)``."""
        self._append("log_image", "File.from_path('image.png')", log_name, image, step)

    def log_artifact(self, artifact: str, destination: str | None = None) -> None:
        """Store a file. Deprecated: ``logger.run[path].upload('path_to_file')``.

        Without a destination, ``artifact`` is the file itself.
        """
        path = self._path(self.ARTIFACTS_KEY, artifact.strip("/"))
        _warn("log_artifact", f"logger.run[{path!r}].upload('path_to_file')")
        self._upload_file(path, artifact if destination is None else destination)

    @guarded
    def _append(self, method: str, example: str, name: str, value: Any, step: float | None) -> None:
        path = self._path(name)
        _warn(method, f"logger.run[{path!r}].append({example})")
        if method == "log_image" and isinstance(value, (str, os.PathLike)):
            value = File.from_path(os.fspath(value))
        elif method == "log_image" and not isinstance(value, File):
            value = File.as_image(value)
        self.run[path].append(value, step=step)

    @guarded
    def _upload_file(self, path: str, file: str) -> None:
        self.run[path].upload(file)


def _warn(method: str, instead: str) -> None:
    warnings.warn(
        f"logger.{method}() is deprecated and may be removed; use {instead} instead",
        UserWarning,
        stacklevel=5,
    )


log = logging.getLogger("seamark")
_SETTINGS: Final = (
    "max_epochs",
    "min_epochs",
    "max_steps",
    "min_steps",
    "gradient_clip_val",
    "gradient_clip_algorithm",
    "accumulate_grad_batches",
    "check_val_every_n_epoch",
    "val_check_interval",
    "log_every_n_steps",
    "limit_train_batches",
    "limit_val_batches",
    "overfit_batches",
    "num_sanity_val_steps",
    "fast_dev_run",
    "reload_dataloaders_every_n_epochs",
)
"""Trainer arguments that are also its attributes. Devices, strategy and precision are recorded
below ``distributed/``."""
_DETERMINISTIC: Final = (False, "warn", True)
"""Trainer argument ``deterministic``, by torch's number of the mode."""


def settings(trainer: Any) -> dict[str, Any]:
    """Return settings of a trainer by argument name."""
    found = {
        **{name: getattr(trainer, name, None) for name in _SETTINGS},
        "deterministic": _DETERMINISTIC[torch.get_deterministic_debug_mode()],
        "benchmark": torch.backends.cudnn.benchmark,
    }
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in found.items()
        if value is not None
    }


def facts(trainer: Any) -> dict[str, Any]:
    """Return facts about the ranks and devices of a trainer, by name, at the start of a stage."""
    strategy = trainer.strategy
    launcher = current_rank().launcher
    if launcher is None and getattr(strategy, "launcher", None) is not None:
        launcher = "lightning"  # with ddp_spawn of 1.9 the process does not show it
    found = {
        "strategy": type(strategy).__name__,
        "launcher": launcher,
        "world_size": trainer.world_size,
        "nodes": trainer.num_nodes,
        "devices": trainer.num_devices,
        "accelerator": getattr(strategy.root_device, "type", None),
        "precision": str(trainer.precision),
    }
    return {name: fact for name, fact in found.items() if fact is not None}


def batch_facts(trainer: Any) -> dict[str, int]:
    """Return the number of samples in a step, by name; empty if unknown."""
    loader = trainer.train_dataloader
    batch = batch_size(getattr(loader, "loaders", loader))  # 1.9 wraps it in a CombinedLoader
    if batch is None:
        return {}
    accumulated = int(trainer.accumulate_grad_batches)
    return {
        "batch_size": batch,
        "accumulate_grad_batches": accumulated,
        "effective_batch_size": batch * int(trainer.world_size) * accumulated,
    }


# ---------------------------------------------------------------- LightningCLI


def configuration(trainer: Any, secrets: Secrets) -> tuple[str, dict[str, Any]]:
    """Return the configuration of LightningCLI, including defaults, without secrets.

    It consists of the YAML text, and of the values of trainer, data, optimizer and scheduler by
    section. Both are empty if LightningCLI did not create the trainer, or saves no configuration.
    """
    for callback in trainer.callbacks:
        if any(cls.__name__ == "SaveConfigCallback" for cls in type(callback).__mro__):
            import yaml

            text = without_secrets(
                callback.parser.dump(callback.config, format="yaml", skip_none=False), secrets
            )
            return text, _sections(yaml.safe_load(text))
    return "", {}


def _sections(tree: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, section in tree.items():
        # The values of the model are its hyperparameters.
        if isinstance(section, Mapping) and name != "model":
            own = {key: value for key, value in section.items() if key != "init_args"}
            # A class and its arguments are recorded side by side.
            found[name] = _without_none({**own, **(section.get("init_args") or {})})
    # The arguments of the logger are recorded in the run.
    found.get("trainer", {}).pop("logger", None)
    if (seed := tree.get("seed_everything")) is not None:
        found["seed_everything"] = seed
    return found


def _without_none(section: Mapping[str, Any]) -> dict[str, Any]:
    inner = {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in section.items()
    }
    return {key: value for key, value in inner.items() if value is not None and value != {}}


def without_secrets(text: str, secrets: Secrets) -> str:
    """Return the content of a YAML file without secrets; unchanged if there are none."""
    import yaml  # required by Lightning

    try:
        plain = json.dumps(yaml.safe_load(text), default=str)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError):
        return secrets.text(text)
    kept = secrets.atoms({"": Atom("json", plain)})[""].value
    return text if kept == plain else yaml.safe_dump(json.loads(kept), sort_keys=False)


def hide_in_files(folder: Path, secrets: Secrets) -> None:
    # Files in subfolders are not examined. The API key is replaced by ``null``, so that the file
    # can be used again. A link leads to somebody's file elsewhere.
    for path in (path for path in folder.glob("*.yaml") if not path.is_symlink()):
        try:
            hidden = text = path.read_text(encoding="utf-8", errors="surrogateescape")
            for key in secrets.known:
                hidden = re.sub(rf"""(?m): (['"]?){re.escape(key)}\1$""", ": null", hidden)
            hidden = without_secrets(hidden, secrets)
            if hidden != text:
                path.write_text(hidden, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            let_pass(error)
            log.warning("seamark: could not look for secrets in %s: %s", path, error)


def set_aside(folder: Path) -> None:
    """Rename the configurations of earlier starts, which LightningCLI refuses to replace."""
    for path in [one for one in folder.glob("*.yaml") if "-before-start-" not in one.name]:
        number = 1 + len(list(folder.glob(f"{path.stem}-before-start-*.yaml")))
        path.rename(path.with_name(f"{path.stem}-before-start-{number}.yaml"))

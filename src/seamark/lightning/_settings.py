"""Settings of a training: of the Trainer, of its ranks, and the configuration of LightningCLI."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from seamark.process.interrupts import let_pass
from seamark.process.rank import current_rank
from seamark.run.adapters import batch_size
from seamark.values import Atom

if TYPE_CHECKING:
    from seamark.capture import Secrets

__all__ = [
    "batch_facts",
    "configuration",
    "facts",
    "hide_in_files",
    "set_aside",
    "settings",
    "without_secrets",
]

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
"""Arguments of a Trainer that it has as attributes. Devices, strategy and precision are recorded
below ``distributed/``."""

_DETERMINISTIC: Final = (False, "warn", True)
"""The argument ``deterministic`` of a Trainer, by torch's number of the mode."""


def settings(trainer: Any) -> dict[str, Any]:
    """Return how long and in which way a trainer trains, by name of its argument."""
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
    """Return facts of a trainer about its ranks and devices, by name, when a stage begins."""
    strategy = trainer.strategy
    launcher = current_rank().launcher
    if launcher is None and getattr(strategy, "launcher", None) is not None:
        launcher = "lightning"  # ddp_spawn of 1.9 leaves no trace of it in the process
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
    """Return how many samples a step takes, by name; nothing where the data do not say it."""
    loader = trainer.train_dataloader
    batch = batch_size(getattr(loader, "loaders", loader))  # 1.9 has a CombinedLoader around it
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
    """Return the configuration of LightningCLI, defaults included, without secrets.

    The YAML text, and by section the values of trainer, data, optimizer and scheduler. Both are
    empty if LightningCLI did not make the trainer, or saves no configuration.
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
    # The arguments of the logger are visible in the run itself.
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
    """Return a YAML file without secrets, unchanged if there are none; other text likewise."""
    import yaml  # which Lightning needs

    try:
        plain = json.dumps(yaml.safe_load(text), default=str)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError):
        return secrets.text(text)
    kept = secrets.atoms({"": Atom("json", plain)})[""].value
    return text if kept == plain else yaml.safe_dump(json.loads(kept), sort_keys=False)


def hide_in_files(folder: Path, secrets: Secrets) -> None:
    # Files of folders below are not looked at. In the place of the API key is ``null``, so that the
    # file can be used again.
    # A link leads to somebody's file elsewhere.
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
    """Rename the configurations of earlier starts; LightningCLI refuses to replace one."""
    for path in [one for one in folder.glob("*.yaml") if "-before-start-" not in one.name]:
        number = 1 + len(list(folder.glob(f"{path.stem}-before-start-*.yaml")))
        path.rename(path.with_name(f"{path.stem}-before-start-{number}.yaml"))

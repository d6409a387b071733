"""What a training was told: settings of the Trainer, and the configuration of LightningCLI."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.lightning._configuration import without_secrets

if TYPE_CHECKING:
    from seamark.capture import Secrets

__all__ = ["Configuration", "configuration", "saves_configuration", "settings"]

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
"""Arguments of a Trainer that it has as attributes; what became of devices, strategy and precision
stands in ``distributed/``."""

_TOLD_OTHERWISE: Final = "model"
"""The part of a configuration whose values are not recorded: they are the hyperparameters."""


class Configuration(NamedTuple):
    """What LightningCLI was given, defaults included, without what looks like a secret.

    Attributes:
        text: As YAML.
        values: What it holds of trainer, data, optimizer and scheduler: nested, by section.
    """

    text: str
    values: dict[str, Any]


def settings(trainer: Any) -> dict[str, Any]:
    """Return how long and in which way a trainer trains, by name of its argument.

    Args:
        trainer: Of either package, 1.9.5 or later; one that fits.
    """
    found = {name: getattr(trainer, name, None) for name in _SETTINGS}
    torch: Any = sys.modules["torch"]
    exact, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    found["deterministic"] = "warn" if exact and warns else exact
    found["benchmark"] = torch.backends.cudnn.benchmark
    return {
        name: value.value if isinstance(value, Enum) else value
        for name, value in found.items()
        if value is not None
    }


def saves_configuration(callback: Any) -> bool:
    """Return whether a callback is the one of LightningCLI that saves the configuration."""
    return "SaveConfigCallback" in {cls.__name__ for cls in type(callback).__mro__}


def configuration(trainer: Any, secrets: Secrets) -> Configuration | None:
    """Return what LightningCLI was given; None if it did not make the trainer, or saves nothing.

    Args:
        trainer: One that begins a stage.
        secrets: What of it is hidden.
    """
    saver = next(filter(saves_configuration, trainer.callbacks), None)
    if saver is None:
        return None
    yaml: Any = importlib.import_module("yaml")  # Lightning needs it
    told = saver.parser.dump(saver.config, format="yaml", skip_none=False)
    text = without_secrets(told, secrets)
    return Configuration(text, _sections(yaml.safe_load(text)))


def _sections(tree: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, section in tree.items():
        if isinstance(section, Mapping) and name != _TOLD_OTHERWISE:
            inner = section.get("init_args")  # a class and its arguments are told side by side
            plain = {key: value for key, value in section.items() if key != "init_args"}
            found[name] = dict(_given({**plain, **(inner or {})}))
    found.get("trainer", {}).pop("logger", None)  # what it was given is told by the run itself
    seed = tree.get("seed_everything")
    return found if seed is None else {**found, "seed_everything": seed}


def _given(section: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what is not left to its default of None."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            if inner := dict(_given(value)):
                yield key, inner
        elif value is not None:
            yield key, value

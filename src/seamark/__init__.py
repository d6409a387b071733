"""Experiment tracker for PyTorch Lightning and Ignite.

Runs are recorded on your own disk; adapters and the API share one run model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark import substitutes as _substitutes

__version__ = "0.1.0"

_substitutes.install()

if TYPE_CHECKING:
    from seamark import constants as constants
    from seamark import envs as envs
    from seamark import errors, types, utils
    from seamark import exceptions as exceptions
    from seamark import handler as handler
    from seamark import integrations as integrations
    from seamark import management as management
    from seamark import typing as typing
    from seamark import version as version
    from seamark.constants import ANONYMOUS_API_TOKEN
    from seamark.page.notebook import ui
    from seamark.registry.artifacts import Artifact, init_artifact
    from seamark.registry.group import fetch_projects_table
    from seamark.registry.model import Model, ModelVersion, init_model, init_model_version
    from seamark.registry.project import Project, init_project
    from seamark.registry.transfer import sync
    from seamark.remote.login import login, logout
    from seamark.run.constructors import from_dict
    from seamark.run.constructors import init as init
    from seamark.run.handler import Handler
    from seamark.run.lineage import Reference
    from seamark.run.run import Run, init_run
    from seamark.values.aggregates import Last, Ring
    from seamark.values.statistics import Statistics

__all__ = [
    "ANONYMOUS_API_TOKEN",
    "Artifact",
    "Handler",
    "Last",
    "Model",
    "ModelVersion",
    "Project",
    "Reference",
    "Ring",
    "Run",
    "Statistics",
    "__version__",
    "errors",
    "fetch_projects_table",
    "from_dict",
    "init_artifact",
    "init_model",
    "init_model_version",
    "init_project",
    "init_run",
    "login",
    "logout",
    "sync",
    "types",
    "ui",
    "utils",
]

_HOMES = {
    "ANONYMOUS_API_TOKEN": "seamark.constants",
    "Artifact": "seamark.registry.artifacts",
    "Handler": "seamark.run.handler",
    "Last": "seamark.values.aggregates",
    "Model": "seamark.registry.model",
    "ModelVersion": "seamark.registry.model",
    "Project": "seamark.registry.project",
    "Reference": "seamark.run.lineage",
    "Ring": "seamark.values.aggregates",
    "Run": "seamark.run.run",
    "Statistics": "seamark.values.statistics",
    "fetch_projects_table": "seamark.registry.group",
    "from_dict": "seamark.run.constructors",
    "init": "seamark.run.constructors",
    "init_artifact": "seamark.registry.artifacts",
    "init_model": "seamark.registry.model",
    "init_model_version": "seamark.registry.model",
    "init_project": "seamark.registry.project",
    "init_run": "seamark.run.run",
    "login": "seamark.remote.login",
    "logout": "seamark.remote.login",
    "sync": "seamark.registry.transfer",
    "ui": "seamark.page.notebook",
}

_AS_IN_NEPTUNE = (
    "constants",
    "envs",
    "exceptions",
    "handler",
    "integrations",
    "management",
    "typing",
    "version",
)
"""Modules that scripts written for Neptune use; ``from seamark import *`` brings none of them."""


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import seamark`` stays light."""
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__ or name in _AS_IN_NEPTUNE:
        value = import_module(f"{__name__}.{name}")
    else:
        from seamark.options.run_options import FUNCTIONS, also

        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{also(FUNCTIONS, name)}"
        )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)

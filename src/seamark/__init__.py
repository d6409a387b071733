"""Seamark records training runs.

A Lightning logger, and one Run model that is kept on your own disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from seamark import errors, types, utils
    from seamark.remote.login import login, logout
    from seamark.run.handler import Handler
    from seamark.run.project import Project, init_project
    from seamark.run.run import Run, init_run

__all__ = [
    "Handler",
    "Project",
    "Run",
    "__version__",
    "errors",
    "init_project",
    "init_run",
    "login",
    "logout",
    "types",
    "utils",
]

_HOMES = {
    "Handler": "seamark.run.handler",
    "Project": "seamark.run.project",
    "Run": "seamark.run.run",
    "init_project": "seamark.run.project",
    "init_run": "seamark.run.run",
    "login": "seamark.remote.login",
    "logout": "seamark.remote.login",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import seamark`` stays light."""
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)

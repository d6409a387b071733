"""Startup code of the child processes of ``python -m seamark.neptune``.

It precedes an existing ``sitecustomize`` of the environment, and executes it, too.
"""

from __future__ import annotations

import contextlib
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _install() -> None:
    with contextlib.suppress(ImportError):  # another interpreter, without Seamark
        from seamark.neptune import install

        install()


def _run_original() -> None:
    here = Path(__file__).parent
    others = [each for each in sys.path if Path(each) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_install()
_run_original()

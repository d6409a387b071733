"""What the entry points of this package give to Lightning, for every Trainer that is made.

Most of these Trainers have nothing to do with Seamark. So this imports nothing, gives nothing where
`seamark.lightning` was not imported (then there is no logger of ours either), and never raises.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

__all__ = ["for_lightning", "for_pytorch_lightning"]

log = logging.getLogger("seamark")


def for_lightning() -> list[Any]:
    """Return the callbacks for a Trainer of ``lightning.pytorch``."""
    return _callbacks("lightning.pytorch")


def for_pytorch_lightning() -> list[Any]:
    """Return the callbacks for a Trainer of ``pytorch_lightning``."""
    return _callbacks("pytorch_lightning")


def _callbacks(package: str) -> list[Any]:
    if "seamark.lightning" not in sys.modules:
        return []
    try:
        from seamark.lightning._resume import resume_callback

        return [resume_callback(package)]
    except Exception as error:  # noqa: BLE001 - somebody's Trainer is being made
        log.debug("seamark: no callback is offered to %s: %r", package, error)
        return []

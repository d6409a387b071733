"""Neptune's ``management.exceptions`` under its own name."""

from __future__ import annotations

from seamark.neptune.management import exceptions as _home
from seamark.neptune.management.exceptions import *  # noqa: F403

__all__ = _home.__all__

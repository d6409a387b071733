"""Neptune's ``management`` under its own name; see `seamark.neptune.management`."""

from __future__ import annotations

from seamark.management import exceptions as exceptions
from seamark.neptune import management as _home
from seamark.neptune.management import *  # noqa: F403

__all__ = _home.__all__

"""Which process on which host."""

from __future__ import annotations

import os
import socket
from typing import Any

__all__ = ["host_facts"]


def host_facts(namespace: str) -> dict[str, Any]:
    """Return host name and pid, by path below ``namespace``, such as ``monitoring/<writer>``."""
    return {f"{namespace}/hostname": socket.gethostname(), f"{namespace}/pid": os.getpid()}

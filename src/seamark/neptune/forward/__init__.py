"""The remote ``neptune://workspace/project``, which forwards runs by Neptune's protocol.

Attributes of a forwarded run, below ``monitoring/seamark/forward/<journal>``:

    position   how much of the journal is there: offset of a frame, and how much of that frame
    files      the same of the files that it names, which follow behind
    <kind>     how often something of a kind could not be held, or only in another form
"""

from __future__ import annotations

from seamark.neptune.forward.remote import NeptuneRemote, open_remote

__all__ = ["NeptuneRemote", "open_remote"]

"""Remote ``neptune://workspace/project``, which forwards runs by Neptune's protocol.

Attributes of a forwarded run, below ``monitoring/seamark/forward/<journal>``:

    position   sent part of the journal: offset of a frame, and number of sent items of that frame
    files      the same position for its files, which are sent later
    <kind>     number of values of a kind that were left out or converted
"""

from __future__ import annotations

from seamark.neptune.forward.remote import NeptuneRemote, open_remote

__all__ = ["NeptuneRemote", "open_remote"]

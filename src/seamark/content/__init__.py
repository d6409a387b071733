"""Bytes of files on their way into a run, in a lane of their own.

`ContentLane` takes hold of files before its methods return and makes blobs of them on a thread,
so that a checkpoint of ten gigabytes never holds up a metric. How a file is held, and what happens
when it is rewritten meanwhile, is described in ``seamark.content._hold``. What a process that died
left half done, `finish_staged` completes.
"""

from __future__ import annotations

from seamark.content._fetch import write_file
from seamark.content._finish import finish_staged
from seamark.content._lane import ContentLane
from seamark.content._names import members_of, reference
from seamark.journal.blobs import open_blob

__all__ = [
    "ContentLane",
    "finish_staged",
    "members_of",
    "open_blob",
    "reference",
    "write_file",
]

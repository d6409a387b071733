"""Bytes of files on their way into a run, in a lane of their own.

`ContentLane` takes hold of files before its methods return and makes blobs of them on a thread,
so that a checkpoint of ten gigabytes never holds up a metric. How a file is held, and what happens
when it is rewritten meanwhile, is described in ``seamark.content._hold``. What a process that died
left half done, `finish_staged` completes.
"""

from __future__ import annotations

from seamark.content._fetch import is_pending, read_text, write_file
from seamark.content._finish import finish_staged
from seamark.content._lane import ContentLane
from seamark.content._names import members_of, reference
from seamark.content._refs import are_ours
from seamark.journal.blobs import open_blob

__all__ = [
    "ContentLane",
    "are_ours",
    "finish_staged",
    "is_pending",
    "members_of",
    "open_blob",
    "read_text",
    "reference",
    "write_file",
]

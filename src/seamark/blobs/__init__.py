"""Files of a run by their digest: staging, storing, recovery, removal and reading.

A thread stores the blobs, so that a checkpoint of ten gigabytes never delays a metric.
"""

from __future__ import annotations

from seamark.blobs.contents import (
    are_recorded_by_user,
    is_pending,
)
from seamark.blobs.names import FileFilter, find_inside, is_below, members_of, moved_path, reference
from seamark.blobs.pending import finish_staged
from seamark.blobs.store import open_blob
from seamark.blobs.writer import BlobWriter

__all__ = [
    "BlobWriter",
    "FileFilter",
    "are_recorded_by_user",
    "find_inside",
    "finish_staged",
    "is_below",
    "is_pending",
    "members_of",
    "moved_path",
    "open_blob",
    "reference",
]

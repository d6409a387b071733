"""Descriptions of data of a run that another program's protocol cannot hold.

When a run is forwarded to such a program, the run counts what could not be sent as it is, below
`FORWARD`: ``<place>/<kind>``.
"""

from __future__ import annotations

from typing import Final

__all__ = ["WORDS"]

WORDS: Final = {
    "artifacts": "artifacts: left out",
    "damaged": "records that cannot be read: left out",
    "files_gone": "files that are not in the run's folder any more: left out",
    "folders": "folders that were recorded as one file: left out",
    "histograms": "histograms: left out",
    "large_integers": "integers beyond 32 bits: sent as floats",
    "lists": "lists: sent as their JSON text",
    "long_texts": "texts above 4 MiB: left out",
    "not_finite": "points that are NaN or infinite: left out",
    "not_finite_values": "values that are NaN or infinite: sent as texts",
    "nulls": "None: sent as a text",
    "other_file_series": "points of file series that are no images, or too large: left out",
    "references": "files that are recorded by their place only: left out",
    "refused": "operations that were refused there",
    "renamed": "paths that are in each other's way: with a _ behind their name",
    "sets": "sets other than tags: sent as texts",
    "statistics": "statistics of series (keep): left out",
}
"""By the kind under which it is counted."""

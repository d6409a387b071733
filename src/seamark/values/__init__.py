"""Families of values, and conversions of Python values to atoms, floats, steps and times.

NumPy arrays, tensors and OmegaConf configurations are recognised through modules that are already
loaded. No library is imported for them, so this package loads only the standard library.
"""

from __future__ import annotations

from typing import Final

from seamark.values._atoms import (
    Atom,
    Escaped,
    decode_atom,
    encode_atom,
    escape,
    flatten,
    is_container,
)
from seamark.values._numbers import histograms, shown, to_float, to_floats, to_step, to_time_ns
from seamark.values._parameters import SeriesLeaves, parameters, series_leaves

__all__ = [
    "FAMILIES",
    "Atom",
    "Escaped",
    "SeriesLeaves",
    "decode_atom",
    "encode_atom",
    "escape",
    "flatten",
    "histograms",
    "is_container",
    "parameters",
    "series_leaves",
    "shown",
    "to_float",
    "to_floats",
    "to_step",
    "to_time_ns",
]

FAMILIES: Final[tuple[str, ...]] = (
    "atom",
    "float_series",
    "string_series",
    "file_series",
    "histogram_series",
    "string_set",
    "file",
    "file_set",
    "artifact",
    "statistic",
)
"""Families of values; the family of a path never changes."""

"""Types of the arrays that hold numbers, whatever their shape."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Bools", "Floats", "Ints"]

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

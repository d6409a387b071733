"""Types of arrays of numbers; at run time classes that are readable without NumPy."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

__all__ = ["Bools", "Floats", "Ints", "check_lengths"]

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, np.dtype[np.bool_]]
    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Ints = np.ndarray[Any, np.dtype[np.int64]]
else:

    class _ArrayType(type):
        dtype: str

        def __instancecheck__(cls, value: object) -> bool:
            return getattr(getattr(value, "dtype", None), "name", "") == cls.dtype

    class Bools(metaclass=_ArrayType):
        """Array of booleans."""

        dtype = "bool"

    class Floats(metaclass=_ArrayType):
        """Array of float64."""

        dtype = "float64"

    class Ints(metaclass=_ArrayType):
        """Array of int64."""

        dtype = "int64"


def check_lengths(*columns: Sized) -> None:
    """Check that columns have one length; ValueError if they have not."""
    if len(lengths := set(map(len, columns))) > 1:
        msg = f"expected columns of one length, got {sorted(lengths)}"
        raise ValueError(msg)

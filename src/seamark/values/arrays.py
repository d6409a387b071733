"""Types of the arrays that hold numbers, whatever their shape.

At run time they are classes that only tell which arrays they mean, so that the annotations of
answers can be read where NumPy was not imported.
"""

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
    """Check that some columns have one length.

    Raises:
        ValueError: If they have not.
    """
    if len(lengths := set(map(len, columns))) > 1:
        msg = f"expected columns of one length, got {sorted(lengths)}"
        raise ValueError(msg)

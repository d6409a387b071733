"""What reads return: plain types, the same wherever a run lies.

Importing this imports no NumPy.
"""

from __future__ import annotations

from seamark.reading.curves import Curve, check_points

__all__ = ["Curve", "check_points"]

"""Read a long series for drawing: ``read_curve.py WHOSE RUN POINTS SPIKE SPIKE_STEP``.

WHOSE is ``curve`` (a thousand representative points) or ``numpy`` (all points, and the extremes of
500 parts of them).
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from timed_reads import settled, spent

import seamark

LOOP, APART, WANTED = 20, 3, 1000
whose, run, points = sys.argv[1], sys.argv[2], int(sys.argv[3])
spike, spike_step = map(float, sys.argv[4:])
series = seamark.init_run(with_id=run, mode="read-only")["train/loss"]
Drawn = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def curve() -> Drawn:
    found = series.fetch_points(points=WANTED)
    return found.step, found.value


def all_points() -> Drawn:
    found = series.fetch_points()
    starts = np.linspace(0, len(found), WANTED // 2, endpoint=False).astype(int)
    places = []
    for start, stop in zip(starts, [*starts[1:], len(found)], strict=True):
        part = found.value[start:stop]
        places += sorted({start + int(part.argmin()), start + int(part.argmax())})
    return found.step[places], found.value[places]


def shows_it(drawn: Drawn) -> bool:
    """Tell whether the one spike is among few enough points, where it was recorded."""
    step, value = drawn
    at = int(value.argmax())
    return len(step) <= WANTED and value[at] == spike and step[at] == spike_step


read = {"curve": curve, "numpy": all_points}[whose]
assert len(series.fetch_points()) == points
settled()
figures: dict[str, Any] = spent("first", read, check=shows_it)
figures |= spent("loop", read, LOOP, check=shows_it)
figures |= spent("apart", read, APART, apart_s=1.0, check=shows_it)
print(json.dumps(figures | {"shown": len(read()[0])}))

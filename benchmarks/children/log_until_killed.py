"""Log 10 metrics a call until killed: ``log_until_killed.py CONTESTANT``.

How many calls returned is kept in a mapped file, which outlives the process.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path

from log_calls import CONTESTANTS

call, _close = CONTESTANTS[sys.argv[1]]()
names = [f"train/metric_{number:03}" for number in range(10)]
path = Path("returned")
path.write_bytes(bytes(8))
with path.open("r+b") as file:
    returned = mmap.mmap(file.fileno(), 8)
pack = struct.Struct("<q").pack_into
step = 0
while True:
    call(dict.fromkeys(names, float(step)), step)
    step += 1
    pack(returned, 0, step)
    if step % 100 == 0:
        time.sleep(0.001)  # the slow peers then have much to lose, not everything

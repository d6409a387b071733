"""Made the folders beside this file, with neptune 1.14.0.post2: ``python make.py KIND``.

What is committed has ``@HERE@`` in the place of the folder in which it ran. One process logs
offline. Of another, the connection is gone after its start: what it logs stays in ``async``, and
it is killed.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime, timezone
from pathlib import Path

import neptune
from neptune.exceptions import NeptuneConnectionLostException
from neptune.internal.backends.neptune_backend_mock import NeptuneBackendMock
from neptune.metadata_containers import metadata_container
from neptune.types import File

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c63600000000200015ae5a3e40000000049454e44ae426082"
)


class Unreachable(NeptuneBackendMock):
    """A server that answered at the start, and then no more."""

    def execute_operations(self, *args: object, **kwargs: object) -> None:
        """Fail as without a network."""
        raise NeptuneConnectionLostException(OSError("no network"))


def log(run: neptune.Run) -> None:
    """Log one of everything."""
    run["params"] = {"lr": 0.1, "n": 3, "on": True, "text": "text", "nested/deep": 2}
    for i in range(5):
        run["train/loss"].append(1 / (i + 1))
    run["train/acc"].append(0.5, step=10, timestamp=1700000000.5)
    run["train/acc"].append(0.75, step=12.5)
    run["logs"].append("hello")
    Path("up.txt").write_text("uploaded")
    run["up"].upload("up.txt")
    run["mem"].upload(File.from_content("in memory"))
    run["set"].upload_files("*.txt")
    run["data"].track_files("up.txt")
    pixel = File.from_content(PIXEL, extension="png")
    run["pixels"].append(pixel, name="n", description="d", step=3)
    run["when"] = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    run["copied"] = run["params/lr"]
    run["gone"] = 1
    del run["gone"]
    run["sys/tags"].remove("a")


kind = sys.argv[1]
keywords = {"name": "baseline", "tags": ["a", "b"], "source_files": ["make.py"]}
keywords |= {"capture_hardware_metrics": False, "capture_stdout": False, "capture_stderr": False}
if kind == "offline":
    with neptune.init_run(mode="offline", **keywords) as made:
        log(made)
else:
    metadata_container.get_backend = lambda **_: Unreachable()
    made = neptune.init_run(mode="async", project="team/digits", **keywords)
    log(made)
    made._op_processor.flush()
    os._exit(1)

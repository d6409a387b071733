"""Add a folder to an artifact, seal it, and download it; or let another tool go through it.

Arguments: the contestant (``seamark``, ``sha256sum``, ``cp``), the folder, an empty folder.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def cpu_ms() -> float:
    """Return the CPU time of this process and of those that it waited for, in milliseconds."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(one) for one in who]
    return 1e3 * sum(one.ru_utime + one.ru_stime for one in used)


def timed(what: str, do: Callable[[], object]) -> dict[str, float]:
    """Return what something took, by name."""
    cpu, wall = cpu_ms(), time.perf_counter()
    do()
    return {
        f"{what}_cpu_ms": cpu_ms() - cpu,
        f"{what}_ms": 1e3 * (time.perf_counter() - wall),
    }


def main(contestant: str, folder: str, empty: str) -> None:
    """Print what it took."""
    if contestant == "sha256sum":
        command = f"find {folder} -type f -print0 | xargs -0 sha256sum > /dev/null"
        found = timed("seal", lambda: subprocess.run(command, shell=True, check=True))
    elif contestant == "cp":
        command = f"cp -r {folder} {empty}/copy"
        found = timed("seal", lambda: subprocess.run(command, shell=True, check=True))
    else:
        import seamark

        given = {"project": "p", "root": f"{empty}/root"}
        Path(f"{empty}/one").write_text("one")
        with seamark.init_artifact(name="first", **given) as first:  # what imports cost
            first.add_file(f"{empty}/one")
        artifact = seamark.init_artifact(name="many", **given)

        def seal() -> None:
            artifact.add_dir(folder, "data")
            artifact.save()

        found = timed("seal", seal)
        artifact.stop()
        with seamark.init_artifact("many:1", mode="read-only", **given) as version:
            found |= timed("read", lambda: version.download(f"{empty}/download"))
        made = sum(len(files) for _, _, files in os.walk(f"{empty}/download"))
        found["files"] = made
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

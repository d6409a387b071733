"""A training that sends while it records; started and killed by ``test_server.py``.

``python sending.py ROOT PROJECT URI STEPS [SAID]`` records until STEPS are done or standard input
ends, whichever is first; it says the run's id, and ``done`` once all was recorded. What the server
answers is noted in the file SAID.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from recording import QUIET

from seamark import init_run
from seamark.types import File


def main(root: str, project: str, uri: str, steps: int) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    run = init_run(project, root=root, remote=uri, **QUIET)
    print(run.id, flush=True)  # noqa: T201
    for step in range(steps):
        run.log_metrics({"train/loss": 1 / (step + 1), "train/step": float(step)}, step=step)
        if step % 50 == 0:
            run[f"params/p{step % 7}"] = step
            run["log"].append(f"line {step}")
        if step % 100 == 0:
            run["files/last"].upload(File.from_content(f"file {step}\n" * 100, "txt"))
        if ended.is_set():
            break
        time.sleep(0.002)
    print("done", flush=True)  # noqa: T201
    run.stop()


if __name__ == "__main__":
    if len(sys.argv) > 5:
        from said import hear_all

        hear_all(Path(sys.argv[5]))
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

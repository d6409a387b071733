"""Ranks that are forked from a process which has imported torch: an import takes each seconds.

Nothing of Seamark is imported before a rank knows that it is one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FORKING = """
import atexit, json, os, sys, threading
import torch.distributed, torch.multiprocessing

def next_rank():
    for line in sys.stdin:
        asked = json.loads(line)
        ranks = []
        for number, environment in enumerate(asked["environments"]):
            if child := os.fork():
                ranks.append(child)
                continue
            os.chdir(asked["folder"])
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for fd, name in enumerate(("out", "err"), start=1):
                os.dup2(os.open(f"{asked['streams']}/{name}{number}", os.O_CREAT | os.O_WRONLY), fd)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = asked["words"]
            return asked["code"]
        ended = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in ranks]
        print(json.dumps(ended), flush=True)
    return None

if (code := next_rank()) is not None:
    exec(compile(code, "<rank>", "exec"), {"__name__": "__main__"})
    # What an interpreter does at its end, but for taking apart all that torch has made.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
"""


class Ended(NamedTuple):
    """What became of a rank."""

    stdout: str
    stderr: str
    code: int


class TorchForks:
    """A process that has imported torch, and forks ranks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def run(
        self, code: str, *words: str, environments: Sequence[Mapping[str, str]] = ({},)
    ) -> list[Ended]:
        """Run code in a rank for each of the environments at once, and return when all have ended.

        A rank has the folder and the environment of the caller, and what its own adds to it.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as streams:
            asked = {
                "code": code,
                "words": ["-c", *words],
                "environments": [{**os.environ, **one} for one in environments],
                "folder": str(Path.cwd()),
                "streams": streams,
            }
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
            codes = json.loads(self.process.stdout.readline())
            return [
                Ended(Path(streams, f"out{n}").read_text(), Path(streams, f"err{n}").read_text(), c)
                for n, c in enumerate(codes)
            ]


@contextlib.contextmanager
def torch_forks() -> Iterator[TorchForks]:
    """Yield a process that forks ranks, and end it."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield TorchForks(process)
        except BaseException:
            process.kill()
            raise

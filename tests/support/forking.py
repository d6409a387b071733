"""Processes that are forked from one which has imported what takes each of them long to import."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SEAMARK = (
    "seamark.run.run",
    "seamark.capture.code.code",
    "seamark.capture.ending.process_end",
    "seamark.capture.environment",
    "seamark.capture.facts",
    "seamark.capture.output",
)
FORKING = """
import atexit, json, os, sys, threading
import {modules}

def next_code():
    for line in sys.stdin:
        asked = json.loads(line)
        children = []
        for number, environment in enumerate(asked["environments"]):
            if child := os.fork():
                children.append(child)
                continue
            os.chdir(asked["folder"])
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for fd, name in enumerate(("out", "err"), start=1):
                os.dup2(os.open(f"{asked['streams']}/{name}{number}", os.O_CREAT | os.O_WRONLY), fd)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = asked["words"]
            return asked["code"]
        ended = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
        print(json.dumps(ended), flush=True)
    return None

if (code := next_code()) is not None:
    exec(compile(code, "<forked>", "exec"), {"__name__": "__main__"})
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
# An interpreter would now take apart all that was imported, which takes long.
os._exit(0)
"""


class Ended(NamedTuple):
    stdout: str
    stderr: str
    code: int


class Forks:
    def __init__(self, process):
        self.process = process

    def run(self, code, *words, name="-c", environments):
        """Run code in a process for each of the environments at once, until all have ended.

        A process has the folder and the environment of the caller, and what its own adds to it;
        its ``sys.argv`` holds the name and the words.
        """
        with tempfile.TemporaryDirectory() as streams:
            asked = {
                "code": code,
                "words": [name, *words],
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
def forking(*modules):
    code = FORKING.replace("{modules}", ", ".join(modules))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Forks(process)
        except BaseException:
            process.kill()
            raise


def forking_torch():
    """Yield a process for ranks: nothing of Seamark is imported before one knows that it is one."""
    return forking("torch.distributed", "torch.multiprocessing")


def forking_seamark():
    return forking(*SEAMARK)

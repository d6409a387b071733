"""A process that takes journals is killed at any moment: what it acknowledged is kept."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from itertools import islice

import pytest
from keeping import PROJECT, RUN, journal, places

from seamark.server.kept.rebuild import rebuild

WORKER = """
import sys
from itertools import pairwise
from pathlib import Path
from keeping import PROJECT, RUN, Place, journal, places

place = Place(sys.argv[1], Path(sys.argv[2]))
intake = place.intake(window_s=0, grows=place.databases.is_sqlite)
made = journal(rows=400)
known = intake.known(PROJECT, RUN)[0].get(made.file, 0)
print(known, flush=True)
for start, end in pairwise([each for each in places(made) if each >= known][::2]):
    kept = intake.put(PROJECT, RUN, made.file, start, made.data[start:end])
    print(kept.offset, flush=True)
"""


@pytest.mark.once
def test_killed_worker_loses_nothing_acknowledged(place, pytestconfig):
    """Killed again and again in the middle; the next one goes on where it ended."""
    chance, made, said = random.Random(1), journal(rows=400), 0
    support = str(pytestconfig.rootpath / "tests" / "support")
    for _ in range(3):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, place.url, str(place.folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": ":".join([support, *sys.path])},
        )
        with worker, worker.stdout:
            lines = list(islice(worker.stdout, chance.randrange(3, 25)))
            worker.send_signal(signal.SIGKILL)
            lines += worker.stdout.read().split("\n")[:-1]
        said = max(said, *map(int, lines))
        kept = place.bytes_of(made.file)
        assert len(kept) >= said
        assert kept == made.data[: len(kept)]
    assert said > made.ends[15]
    rebuild(place.database, place.objects, gone=place.gone)
    kept = place.bytes_of(made.file)
    assert len(kept) >= said
    assert kept == made.data[: len(kept)]
    assert place.intake().put(PROJECT, RUN, made.file, 0, made.data).offset == made.offset
    assert len(places(made)) > 400

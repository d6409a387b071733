"""Read a row that another process has just recorded: ``new_row.py WHOSE ATTRIBUTES``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from timed_reads import Spent, Writer, writing

LOOP, APART = 100, 4
whose, attributes = sys.argv[1:]


def seamark_reads(run: str) -> Callable[[], float]:
    import seamark

    opened = seamark.init_run(with_id=run, mode="read-only")
    return lambda: opened["loss"].fetch_last()  # noqa: PLW0108 - with the look-up of the path


def mlflow_reads(run: str) -> Callable[[], float]:
    from mlflow_store import client

    store = client()
    return lambda: store.get_run(run).data.metrics["loss"]


def new_rows(writer: Writer, read: Callable[[], float], times: int, apart_s: float) -> Spent:
    """Have rows written, one at a time, and read each of them at once."""
    taken = Spent()
    for number in range(times):
        time.sleep(apart_s)
        value = number + apart_s + 0.25
        writer.log({"loss": value})
        assert taken.call(read) == value
    return taken


with writing(whose, attributes) as writer:
    writer.log({"loss": -1.0})
    read = {"seamark": seamark_reads, "mlflow": mlflow_reads}[whose](writer.run)
    new_rows(writer, read, 3, 0.0)
    figures = new_rows(writer, read, LOOP, 0.0).figures("loop")
    figures |= new_rows(writer, read, APART, 1.0).figures("apart")
print(json.dumps(figures))

"""One contestant of the logging rows: ``log_calls.py CONTESTANT CALLS METRICS``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from timed_loop import time_calls

if TYPE_CHECKING:
    import seamark

Call = Callable[[Mapping[str, float], int], object]
Close = Callable[[], object]


def captures_of(*, on: bool) -> dict[str, Any]:
    """Return the options that switch all captures."""
    named = ("hardware_metrics", "stderr", "stdout", "traceback")
    others = ("git", "host", "packages", "script", "signals")
    return {"capture": dict.fromkeys(others, on), **{f"capture_{one}": on for one in named}}


def empty() -> tuple[Call, Close]:
    """Do nothing: what the loop itself costs."""
    return (lambda _metrics, _step: None), (lambda: None)


def seamark(*, captures: bool = False) -> tuple[Call, Close]:
    import seamark

    run = seamark.init_run(**captures_of(on=captures))
    return run.log_metrics, run.stop


def sent() -> tuple[Call, Close]:
    """Send what is logged to the server that the environment names."""
    import os

    import seamark

    os.environ["SEAMARK_API_TOKEN"] = os.environ["BENCH_TOKEN"]
    switches: dict[str, Any] = captures_of(on=False)
    run = seamark.init_run(remote=os.environ["BENCH_REMOTE"], **switches)
    return run.log_metrics, run.stop


def captured() -> tuple[Call, Close]:
    return seamark(captures=True)


def timestamp() -> tuple[Call, Close]:
    import time

    import seamark

    run, log, now = one_run(), seamark.Run.log_metrics, time.time()
    return (lambda metrics, step: log(run, metrics, step, timestamp=now)), run.stop


def numpy_step() -> tuple[Call, Close]:
    import numpy as np

    run, steps = one_run(), [np.int64(number) for number in range(1000)]
    return (lambda metrics, step: run.log_metrics(metrics, steps[step % 1000])), run.stop


def append() -> tuple[Call, Close]:
    """One point at a time."""
    run = one_run()
    series = run["train/metric_000"]
    return (lambda metrics, _step: series.append(metrics["train/metric_000"])), run.stop


def append_mapping() -> tuple[Call, Close]:
    run = one_run()
    series = run["series"]
    return (lambda metrics, step: series.append(metrics, step=step)), run.stop


def one_run() -> seamark.Run:
    import seamark

    return seamark.init_run(**captures_of(on=False))


def float32() -> Callable[[float], Any]:
    import numpy as np

    return np.float32


def tensors() -> Callable[[float], Any]:
    import torch

    return torch.tensor


def csv() -> tuple[Call, Close]:
    """Lightning's CSVLogger by its inner writer, which is cheaper than the logger around it."""
    from lightning.pytorch.loggers import CSVLogger

    writer = CSVLogger(".").experiment

    def log(metrics: Mapping[str, float], step: int) -> None:
        writer.log_metrics(dict(metrics), step)
        if step % 100 == 99:  # as the logger does by default
            writer.save()

    return log, writer.save


def tensorboard() -> tuple[Call, Close]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(".")

    def log(metrics: Mapping[str, float], step: int) -> None:
        for name, value in metrics.items():
            writer.add_scalar(name, value, step)

    return log, writer.close


CONTESTANTS = {
    one.__name__: one
    for one in (
        *(empty, seamark, captured, sent, csv, tensorboard),
        *(timestamp, numpy_step, append, append_mapping),
    )
}
NUMBERS = {"float32": float32, "tensors": tensors}
"""Numbers of other kinds than Python's floats, given to ``log_metrics``."""

if __name__ == "__main__":
    name, calls, metrics = sys.argv[1:]
    call, close = CONTESTANTS["seamark" if name in NUMBERS else name]()
    number = NUMBERS[name]() if name in NUMBERS else float
    time_calls(call, close, int(calls), int(metrics), number)

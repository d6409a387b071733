"""One contestant of the logging rows: ``log_calls.py CONTESTANT CALLS METRICS``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from timed_loop import time_calls

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


def captured() -> tuple[Call, Close]:
    return seamark(captures=True)


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


CONTESTANTS = {one.__name__: one for one in (*(empty, seamark, captured, csv, tensorboard),)}

if __name__ == "__main__":
    name, calls, metrics = sys.argv[1:]
    call, close = CONTESTANTS[name]()
    time_calls(call, close, int(calls), int(metrics))

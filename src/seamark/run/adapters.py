"""Base of the loggers of all frameworks, which opens and holds a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from seamark.errors import ArgumentError
from seamark.options.run_options import check_names
from seamark.paths import join_path
from seamark.process.interrupts import let_pass
from seamark.run.handler import Handler
from seamark.run.run import Run, make_run
from seamark.types import Histogram
from seamark.values import histograms, series_leaves

__all__ = [
    "agreed_run",
    "batch_size",
    "check_run",
    "guarded",
    "new_run",
    "record_histograms",
    "record_series",
    "words_of",
]

P = ParamSpec("P")
Self = TypeVar("Self")


def guarded(
    method: Callable[Concatenate[Self, P], None],
) -> Callable[Concatenate[Self, P], None]:
    """Hand errors of a method, but not of signal handlers, to ``_lost(method name, error)``."""

    @wraps(method)
    def quiet(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the promise of this decorator
            let_pass(error)
            self._lost(method.__name__, error)

    return quiet


def words_of(logger: object, run: Run | None) -> str:
    """Return the repr of a logger: its class, and project, id, name and root of its run."""
    kind = type(logger).__name__
    if run is None:  # it is being made, or unpickled
        return f"<{kind}>"
    name = f" {run.name!r}" if run.name else ""
    return f"<{kind} of {run.project}/{run.id}{name} in {run.root}>"


def check_run(run: object, others: Mapping[str, Any], what: str = "SeamarkLogger") -> None:
    """Check ``run=``, and that nothing (but None) is given beside it for a new run."""
    if run is None:
        return
    root = run.get_root_object() if isinstance(run, Handler) else run
    if not isinstance(root, Run):
        kind = f"{type(run).__module__}.{type(run).__qualname__}"
        msg = (
            f"{what}(run=...): expected the Run that seamark.init_run() returns, "
            f"or a namespace of it such as run['folds/1'], got {kind}"
        )
        raise ArgumentError(msg)
    if redundant := [name for name, value in others.items() if value is not None]:
        msg = (
            f"{what}(run=...): {', '.join(redundant)} cannot be given with a run that "
            "exists; pass them to seamark.init_run() instead"
        )
        raise ArgumentError(msg)


def agreed_run(run: Run) -> Run:
    """Return the run that all ranks record into: that of rank 0. Every rank has to call this."""
    session = run.session.agree()
    return run if session is run.session else Run(session)


def new_run(*, api_key: str | None = None, **given: Any) -> Run:
    """Return a run that touches no disk until something is recorded."""
    if api_key is not None:
        if given.get("api_token") is not None:
            msg = "SeamarkLogger: expected api_key or api_token (they are the same), got both"
            raise ArgumentError(msg)
        given["api_token"] = api_key
    return make_run(**check_names(given))


def record_series(run: Run, values: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record numbers in one row, and texts, at one step; count the rest. Never raises."""
    try:
        numbers, texts = series_leaves(values, prefix)
        if numbers:
            run.log_metrics(numbers, step)
    except Exception as error:  # noqa: BLE001 - stands in training loops
        let_pass(error)
        run.session.drop(
            "series", warn=f"values could not be recorded: {type(error).__name__}: {error}"
        )
        return
    if texts:
        _append_each(run, "text", texts, step)


def record_histograms(run: Run, tensors: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record histograms, made where the tensors are, at one step; never raises."""
    what = f"histograms below {prefix!r} could not be recorded"
    with run.session.recorder.guard("histogram", what):
        made, failed = histograms({join_path(prefix, name): each for name, each in tensors.items()})
        points = {path: Histogram(edges, counts) for path, (edges, counts) in made.items()}
        if points:
            _append_each(run, "histogram", points, step)
        for path, trouble in failed.items():
            run.session.drop("histogram", warn=f"no histogram of {path!r}: {trouble}")


def _append_each(run: Run, what: str, points: Mapping[str, Any], step: Any) -> None:
    try:
        Handler(run, "").append(points, step=step)
    except Exception as error:  # noqa: BLE001 - nothing was written; the next lines tell which
        let_pass(error)
        for path, point in points.items():
            with run.session.recorder.guard(what, f"a {what} could not be recorded at {path!r}"):
                run[path].append(point, step=step)


def batch_size(loader: Any) -> int | None:
    """Return the batch size of this process; None if its loader does not define it."""
    for one in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(one, "batch_size", None)
        if isinstance(size, int):
            return size
    return None

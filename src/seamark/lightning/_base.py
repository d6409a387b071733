"""What callbacks and the profiler know of the logger, without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seamark.lightning import _host

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["RunLogger"]


class RunLogger(_host.Logger):
    """A logger that records into a run; `SeamarkLogger` says what each name means."""

    if TYPE_CHECKING:

        @property
        def own_run(self) -> Run: ...

        @property
        def experiment(self) -> Any: ...

        @property
        def save_dir(self) -> str: ...

        @property
        def log_dir(self) -> str: ...

        def log_metrics(self, metrics: Mapping[str, Any], step: float | None = None) -> None: ...

        def log_graph(self, model: Any, input_array: Any = None) -> None: ...

        def attach(self, trainer: Any) -> None: ...

        def make_room(self) -> None: ...

        def checkpoint_state(self, *, marked: bool = False) -> dict[str, Any]: ...

        def mark_checkpoint(self) -> None: ...

        def resumed(self, state: Mapping[str, Any], *, training: bool = True) -> None: ...

        def follow(self, run: str, project: str) -> None: ...

        def expect_resumed(self) -> None: ...

        def hold(self) -> None: ...

        def release(self) -> None: ...

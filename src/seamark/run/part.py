"""The internal object behind a run, a project, a model or an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorded import Recorded
    from seamark.run.recorder import Recorder

__all__ = ["Part"]


@runtime_checkable
class Part(Protocol):
    """Part of one process in a run, or in the log of a project, model or artifact.

    Attributes:
        lifecycle: Its state in this process.
        recorder: What writes it.
        recorded: What reads it.
    """

    lifecycle: Lifecycle
    recorder: Recorder
    recorded: Recorded

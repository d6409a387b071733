"""Base of runs, projects and the paths in them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seamark.reading.browsing import Browsable

if TYPE_CHECKING:
    from seamark.run.recorded import Recorded
    from seamark.run.recorder import Part

__all__ = ["Recordable"]


class Recordable(Browsable):
    """A run, a project or a path in one, to which values are assigned."""

    __slots__ = ()

    _path: str
    """Path in the run or project; empty for its root."""

    @property
    @abstractmethod
    def _session(self) -> Part:
        """Part of this process in the run or project; another one once an artifact is saved."""

    def _place(self) -> tuple[Recorded, str]:
        return self._session.recorded, self._path

    @abstractmethod
    def __getitem__(self, path: str) -> Recordable:
        """Return the handler of a path below this one; nothing is read or written yet."""

    def __setitem__(self, path: str, value: Any) -> None:
        self[path].assign(value)

    def __delitem__(self, path: str) -> None:
        self.pop(path)

    @abstractmethod
    def pop(self, path: str, *, wait: bool = False) -> None:
        """Delete a path below this one and everything below it."""

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: float | datetime | None = None,
        *,
        phase: str | None = None,
        epoch: float | None = None,
        timestamp: float | datetime | None = None,
    ) -> None:
        """Record one number for each path, all at one step. The quick way; never raises.

        What cannot be recorded (a bad path, a path of another family, something that is not a
        number) is left out, warned about once and counted under ``monitoring/seamark/dropped``.

        Args:
            metrics: Numbers by path; NaN and infinities are kept, ints beyond 2**53 are rounded to
                float64. Paths are those below a handler's.
            step: Finite number, kept as given; a datetime is its seconds since the Unix epoch (a
                naive one is local time); None numbers the row 1 above the largest last step of
                these paths.
            phase: Below which namespace the paths are: ``"train"`` or ``"training"`` is ``train``;
                ``"val"``, ``"validate"`` or ``"validation"`` is ``val``; ``"test"``, ``"testing"``,
                ``"eval"``, ``"evaluate"`` or ``"evaluation"`` is ``test``; anything else is itself.
            epoch: Recorded as ``epoch`` in that namespace, at the same step; a metric of that name
                is left out then.
            timestamp: Seconds since the Unix epoch, or a datetime; the time of the call is always
                kept as well.
        """
        recorder = self._session.recorder
        if timestamp is None and phase is None and epoch is None and not self._path:
            recorder.row(metrics, step)
        else:
            recorder.points.log_metrics(metrics, step, timestamp, self._path, phase, epoch)

    def assign(self, value: Any, *, wait: bool = False) -> None:
        """Set the value at this path.

        Mappings, dataclasses, Namespaces and OmegaConf nodes are taken apart, one path for each
        leaf; a `File`, a picture, a chart and a table are uploaded; a set of strings becomes a
        string set; lists are kept as JSON, and replace the points of a series that this process
        wrote; classes, functions and modules as their names; another handler gives its value of
        now. What is one of `seamark.types` says itself what it becomes. Of what is taken apart, a
        leaf that cannot be kept is its text; a single value of that kind is refused.

        Args:
            value: The value; of a whole run or project, something that is taken apart.
            wait: Return only when a file is stored.

        Raises:
            ValueKindError: If a single value cannot be kept, or a mapping holds itself.
            FamilyError: If a path holds another family. Nothing is written in both cases.
            PathError: If a path is derived or illegal.
            MissingFieldError: If the handler that is copied holds nothing.
        """
        recorder = self._session.recorder
        recorder.values.assign(self._path, value, wait=wait)

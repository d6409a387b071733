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


class Recordable(Browsable):
    """A run, a project or a path in one, to which values are assigned."""

    __slots__ = ()

    _path: str
    """Path in the run or project; empty for its root."""

    @property
    @abstractmethod
    def _session(self) -> Part:
        """Session of this process in the run or project; replaced when an artifact is saved."""

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
        """Record one number for each path, all at one step. The fastest way; never raises.

        Values that cannot be recorded (an invalid path, a path of another family, not a number) are
        omitted, with one warning, and counted under ``monitoring/seamark/dropped``.

        Args:
            metrics: Numbers by path, relative to a handler's path. NaN and infinities are kept;
                ints beyond 2**53 are rounded to float64.
            step: Finite number, kept as given; a datetime is its seconds since the Unix epoch (a
                naive one is local time); None is one more than the largest last step of these
                paths.
            phase: Namespace of the paths: ``"train"`` or ``"training"`` is ``train``; ``"val"``,
                ``"validate"`` or ``"validation"`` is ``val``; ``"test"``, ``"testing"``,
                ``"eval"``, ``"evaluate"`` or ``"evaluation"`` is ``test``; anything else is itself.
            epoch: Recorded as ``epoch`` in that namespace, at the same step; it replaces a metric
                of that name.
            timestamp: Seconds since the Unix epoch, or a datetime; the time of the call is recorded
                in addition.
        """
        recorder = self._session.recorder
        if timestamp is None and phase is None and epoch is None and not self._path:
            recorder.row(metrics, step)
        else:
            recorder.points.log_metrics(metrics, step, timestamp, self._path, phase, epoch)

    def assign(self, value: Any, *, wait: bool = False) -> None:
        """Set the value at this path.

        Mappings, dataclasses, Namespaces and OmegaConf nodes are flattened, with one path for each
        leaf. A `File`, an image, a chart and a table are uploaded; a set of strings becomes a
        string set. Lists are stored as JSON, and replace the points of a series that this process
        wrote; classes, functions and modules are stored as their names. Another handler stands for
        its current value. Values of `seamark.types` define their own form. In a flattened value, an
        unsupported leaf is stored as its text; a single unsupported value raises.

        Args:
            value: The value; for a whole run or project, a value that is flattened.
            wait: Return only when a file is stored.

        Raises:
            ValueKindError: If a single value is not supported, or a mapping contains itself.
            FamilyError: If a path holds another family. Nothing is written in both cases.
            PathError: If a path is invalid or reserved for derived values.
            MissingFieldError: If the copied handler has no value.
        """
        recorder = self._session.recorder
        recorder.values.assign(self._path, value, wait=wait)

"""Arguments and methods of older loggers of Neptune."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from seamark.errors import ArgumentError
from seamark.lightning import _host
from seamark.options.foreign import VERBS
from seamark.run.adapters import guarded
from seamark.types import File

__all__ = ["DeprecatedMethods", "check_legacy"]

_LEGACY: Final[Mapping[str, str]] = {
    "project_name": "project=...",
    "offline_mode": "mode='offline' (a run without a remote is offline anyway)",
    "experiment_name": "name=...",
    "experiment_id": "with_id=...",
    "properties": "logger.experiment['properties'] = ...",
    "upload_source_files": "source_files=[...]",
    "abort_callback": "nothing: a run is never stopped from outside",
    "logger": "seamark.integrations.python_logger.NeptuneHandler(run=logger.experiment), a handler",
    "upload_stdout": "capture_stdout=...",
    "upload_stderr": "capture_stderr=...",
    "send_hardware_metrics": "capture_hardware_metrics=...",
    "run_monitoring_thread": "capture_hardware_metrics=...",
    "handle_uncaught_exceptions": "capture_traceback=...",
    "git_info": "git_ref=...",
    "hostname": "capture={'host': ...}",
    "notebook_id": "logger.experiment['notebook/id'] = ...",
    "notebook_path": "logger.experiment['notebook/path'] = ...",
    "base_namespace": "prefix=...",
    "close_after_fit": "nothing: the run goes on until logger.experiment.stop() or the exit",
}


def check_legacy(given: Iterable[str]) -> None:
    """Refuse keywords of loggers that came before the one whose signature this is.

    Raises:
        ArgumentError: If there are any; the message says what to write instead.
    """
    if found := [name for name in given if name in _LEGACY]:
        advice = "\n".join(f"  {name}: use {_LEGACY[name]}" for name in found)
        msg = (
            f"SeamarkLogger: expected today's keywords, got {', '.join(found)} of older "
            f"loggers.\n{advice}"
        )
        raise ArgumentError(msg)


class DeprecatedMethods(_host.RunLogger):
    """Four methods that warn and still work; of others the error says what to write instead."""

    ARTIFACTS_KEY = "artifacts"
    PARAMETERS_KEY = "hyperparams"

    def __getattr__(self, name: str) -> Any:
        """Name the line that is meant by a method of another logger.

        Raises:
            AttributeError: As there is no such name.
        """
        advice = f": with run = logger.experiment, {VERBS[name]}" if name in VERBS else ""
        msg = f"{type(self).__name__!r} object has no attribute {name!r}{advice}"
        raise AttributeError(msg, name=name, obj=self)

    def log_metric(self, metric_name: str, metric_value: Any, step: float | None = None) -> None:
        """Append one value to a series. Deprecated: ``logger.run[path].append(value)``."""
        self._append("log_metric", "42", metric_name, metric_value, step)

    def log_text(self, log_name: str, text: str, step: float | None = None) -> None:
        """Append one text to a series. Deprecated: ``logger.run[path].append(text)``."""
        self._append("log_text", "'text'", log_name, str(text), step)

    def log_image(self, log_name: str, image: Any, step: float | None = None) -> None:
        """Append an image to a series. Deprecated: ``logger.run[path].append(File...)``.

        Args:
            log_name: Name of the series, below the logger's prefix.
            image: Path of an image file, or anything that ``File.as_image`` takes.
            step: As in ``append``.
        """
        self._append("log_image", "File.from_path('image.png')", log_name, image, step)

    def log_artifact(self, artifact: str, destination: str | None = None) -> None:
        """Keep a file. Deprecated: ``logger.run[path].upload('path_to_file')``.

        Args:
            artifact: Name of the artifact, below ``<prefix>/artifacts``; the file itself if no
                destination is given.
            destination: Path of the file.
        """
        path = self._path(self.ARTIFACTS_KEY, artifact.strip("/"))
        _warn("log_artifact", f"logger.run[{path!r}].upload('path_to_file')")
        self._upload_file(path, artifact if destination is None else destination)

    @guarded
    def _append(self, method: str, example: str, name: str, value: Any, step: float | None) -> None:
        path = self._path(name)
        _warn(method, f"logger.run[{path!r}].append({example})")
        if method == "log_image" and isinstance(value, (str, os.PathLike)):
            value = File.from_path(os.fspath(value))
        elif method == "log_image" and not isinstance(value, File):
            value = File.as_image(value)
        self.run[path].append(value, step=step)

    @guarded
    def _upload_file(self, path: str, file: str) -> None:
        self.run[path].upload(file)


def _warn(method: str, instead: str) -> None:
    warnings.warn(
        f"logger.{method}() is deprecated and may go away; write {instead} instead",
        UserWarning,
        stacklevel=5,
    )

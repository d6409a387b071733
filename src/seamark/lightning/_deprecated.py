"""Methods of the logger that came before the one whose signature this is."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from seamark.errors import ArgumentError
from seamark.run.adapters import guarded
from seamark.run.foreign import VERBS
from seamark.types import File

if TYPE_CHECKING:
    from seamark.run.handler import Handler
    from seamark.run.run import Run

__all__ = ["DeprecatedMethods"]


def _checked(instead: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Raise at once where a method is called as another logger's of the same name is.

    Args:
        instead: What to write, for the message.
    """

    def decorate(method: Callable[..., None]) -> Callable[..., None]:
        taken = inspect.signature(method)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                taken.bind(self, *args, **kwargs)
            except TypeError as error:
                msg = f"logger.{method.__name__}(): {error}; write {instead}"
                raise ArgumentError(msg) from None
            method(self, *args, **kwargs)

        return call

    return decorate


class DeprecatedMethods:
    """Four methods that warn and still work, and two that say what to write instead.

    A class that has them offers ``run`` and ``_path``.
    """

    ARTIFACTS_KEY = "artifacts"
    PARAMETERS_KEY = "hyperparams"

    if TYPE_CHECKING:

        @property
        def run(self) -> Run | Handler: ...

        def _path(self, *parts: str) -> str: ...

    def __getattr__(self, name: str) -> Any:
        """Name the line that is meant by a method of another logger.

        Raises:
            AttributeError: As there is no such name.
        """
        words = f": with run = logger.experiment, {VERBS[name]}" if name in VERBS else ""
        msg = f"{type(self).__name__!r} object has no attribute {name!r}{words}"
        raise AttributeError(msg, name=name, obj=self)

    @_checked("run = logger.experiment; run[path].append(value, step=step)")
    @guarded
    def log_metric(self, metric_name: str, metric_value: Any, step: float | None = None) -> None:
        """Append one value to a series. Deprecated: ``logger.run[path].append(value)``."""
        path = self._path(metric_name)
        _warn("log_metric", f"logger.run[{path!r}].append(42)")
        self.run[path].append(metric_value, step=step)

    @_checked("run = logger.experiment; run[path].append(text, step=step)")
    @guarded
    def log_text(self, log_name: str, text: str, step: float | None = None) -> None:
        """Append one text to a series. Deprecated: ``logger.run[path].append(text)``."""
        path = self._path(log_name)
        _warn("log_text", f"logger.run[{path!r}].append('text')")
        self.run[path].append(str(text), step=step)

    @_checked("run = logger.experiment; run[path].append(File.as_image(image), step=step)")
    @guarded
    def log_image(self, log_name: str, image: Any, step: float | None = None) -> None:
        """Append an image to a series. Deprecated: ``logger.run[path].append(File...)``.

        Args:
            log_name: Name of the series, below the logger's prefix.
            image: Path of an image file, or anything that ``File.as_image`` takes.
            step: As in ``append``.
        """
        path = self._path(log_name)
        _warn("log_image", f"logger.run[{path!r}].append(File.from_path('image.png'))")
        if isinstance(image, (str, os.PathLike)):
            image = File.from_path(os.fspath(image))
        elif not isinstance(image, File):
            image = File.as_image(image)
        self.run[path].append(image, step=step)

    @_checked("run = logger.experiment; run[path].upload(file)")
    @guarded
    def log_artifact(self, artifact: str, destination: str | None = None) -> None:
        """Keep a file. Deprecated: ``logger.run[path].upload('path_to_file')``.

        Args:
            artifact: Name of the artifact, below ``<prefix>/artifacts``; the file itself if no
                destination is given.
            destination: Path of the file.
        """
        path = self._path(self.ARTIFACTS_KEY, artifact.strip("/"))
        _warn("log_artifact", f"logger.run[{path!r}].upload('path_to_file')")
        self.run[path].upload(artifact if destination is None else destination)

    def set_property(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: properties are plain fields now.

        Raises:
            ArgumentError: Always; the message says what to write instead.
        """
        path = self._path(self.PARAMETERS_KEY, "key")
        _refuse("set_property", f"logger.run[{path!r}] = value")

    def append_tags(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse: tags are a set on the run now.

        Raises:
            ArgumentError: Always; the message says what to write instead.
        """
        _refuse("append_tags", "logger.run['sys/tags'].add(['foo', 'bar'])")


def _warn(method: str, instead: str) -> None:
    msg = f"logger.{method}() is deprecated and may go away; write {instead} instead"
    warnings.warn(msg, UserWarning, stacklevel=5)


def _refuse(method: str, instead: str) -> NoReturn:
    msg = f"logger.{method}() is no longer there; write {instead} instead"
    raise ArgumentError(msg)

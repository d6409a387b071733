"""Records of Python's ``logging`` as a string series of a run."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Final

from seamark import __version__
from seamark.errors import SeamarkError
from seamark.neptune.integrations import verify_type
from seamark.process.interrupts import let_pass
from seamark.run.handler import Handler
from seamark.run.run import Run

__all__ = ["NeptuneHandler"]

_INTEGRATION: Final = "source_code/integrations/neptune-python-logger"


class NeptuneHandler(logging.Handler):
    """A handler that appends log records to a run.

    It never raises into the code that logs. What is logged while it appends, which Seamark does
    where it warns, is not appended; nor is anything while the run is not recording.

    Args:
        run: A run, or a namespace of one.
        level: Records below it are left out.
        path: Of the series; ``python_logger`` below the run's ``monitoring_namespace`` if left out.

    Raises:
        ValueKindError: If an argument is of another type.
        PathError: If the path breaks the grammar.

    Example:
        ::

            logging.getLogger("train").addHandler(NeptuneHandler(run=run))
    """

    def __init__(
        self, *, run: Run | Handler, level: int = logging.NOTSET, path: str | None = None
    ) -> None:
        verify_type("run", run, (Run, Handler))
        verify_type("level", level, int)
        verify_type("path", path, (str, type(None)))
        super().__init__(level)
        root: Run = run.get_root_object()
        verify_type("run", root, Run)
        self._run = root
        own = f"{root.monitoring_namespace}/python_logger"
        self._series = root[own] if path is None else run[path]
        self._here = threading.local()
        with suppress(SeamarkError):  # a run that takes nothing: the first record says so
            root[_INTEGRATION] = __version__

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record as it is formatted; never raises."""
        if getattr(self._here, "appending", False) or self._run.get_state() != "started":
            return
        self._here.appending = True
        try:
            self._series.append(self.format(record))
        except Exception as error:  # noqa: BLE001 - see `let_pass`
            let_pass(error)
            self.handleError(record)
        finally:
            self._here.appending = False

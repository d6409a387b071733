"""Detection of exceptions that leave a running function, from Python 3.12 on (`sys.monitoring`).

A `SystemExit` can be observed in no other way: it does not reach ``sys.excepthook``, and is no
longer available when the exit handlers run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Final

__all__ = ["call_on_exit", "forget"]

_TOOLS: Final = (3, 4)
"""Of the identifiers of ``sys.monitoring``, those that it suggests to no kind of tool."""

_called: dict[int, tuple[CodeType, Callable[[BaseException], None]]] = {}
"""Who is called, by the identity of the code: code of equal content is equal, and slow to hash."""


if sys.version_info >= (3, 12):

    def call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        """Call ``call`` with each exception that leaves ``code``, in the thread where it happens.

        Costs some 0.1 µs for each function of the process that is left by an exception, and nothing
        elsewhere. Does nothing where other tools hold both identifiers that are free for anybody.

        Args:
            code: Of a function or module, which may be running.
            call: Must not raise.
        """
        _called[id(code)] = (code, call)
        monitoring = sys.monitoring
        tools = {monitoring.get_tool(each): each for each in reversed(_TOOLS)}
        if __name__ in tools or None not in tools:
            return
        tool = tools[None]
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, monitoring.events.PY_UNWIND, _left)
        monitoring.set_events(tool, monitoring.events.PY_UNWIND)

    def forget(code: CodeType) -> None:
        """Call nobody any more when ``code`` is left; harmless if nobody was to be called."""
        _called.pop(id(code), None)
        if _called:
            return
        monitoring = sys.monitoring
        for tool in _TOOLS:
            if monitoring.get_tool(tool) == __name__:
                monitoring.set_events(tool, monitoring.events.NO_EVENTS)
                monitoring.register_callback(tool, monitoring.events.PY_UNWIND, None)
                monitoring.free_tool_id(tool)

    def _left(code: CodeType, _offset: int, error: BaseException) -> None:
        if (called := _called.get(id(code))) is not None:
            called[1](error)

else:

    def call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        """Do nothing: this Python does not report it."""

    def forget(code: CodeType) -> None:
        """Do nothing."""

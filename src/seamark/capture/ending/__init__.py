"""The end of a run and of its process: state, cause and text of what ended it."""

from __future__ import annotations

import traceback

from seamark.capture.secrets import Secrets
from seamark.process.interrupts import let_pass

__all__ = ["cause_of", "error_message", "error_traceback", "state_after"]


def cause_of(error: BaseException | None) -> BaseException | None:
    """Return the error, or None if there was none.

    An exit is a failure if its code is neither None nor 0. A number says little: then the exception
    that was being handled is what went wrong, if there is one (Hydra and ``torch.multiprocessing``
    print the error of a training and exit with 1). A text is a reason of its own.
    """
    if isinstance(error, GeneratorExit):
        return None
    if not isinstance(error, SystemExit):
        return error
    if error.code is None or (isinstance(error.code, int) and error.code == 0):
        return None
    hidden = error.__context__ if isinstance(error.code, int) else None
    return (cause_of(hidden) if hidden is not None else None) or error


def state_after(cause: BaseException) -> str:
    """Return the state of a run that ``cause`` ended: Ctrl-C interrupts, everything else fails."""
    return "interrupted" if isinstance(cause, KeyboardInterrupt) else "failed"


_MAX_MESSAGE_CHARS = 4000
_USUAL = Secrets()


def error_message(error: BaseException, secrets: Secrets = _USUAL) -> str:
    """Return the message of an exception without secrets, at most 4,000 characters. Never raises.

    An exception whose ``__str__`` fails is described by its type.
    """
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001 - a broken __str__ must not hide that the run failed
        let_pass(trouble)
        text = f"<{type(error).__name__}, whose text could not be read>"
    return secrets.message(text)[:_MAX_MESSAGE_CHARS]


def error_traceback(error: BaseException, secrets: Secrets = _USUAL) -> str:
    """Return an exception's traceback as Python prints it, its causes included, secrets masked."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return secrets.message("".join(lines))

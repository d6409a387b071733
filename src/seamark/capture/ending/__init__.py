"""End of a run and of its process: state, cause and error message."""

from __future__ import annotations

import traceback

from seamark.capture.secrets import Secrets
from seamark.process.interrupts import let_pass


def cause_of(error: BaseException | None) -> BaseException | None:
    """Return the exception that ended the process as a failure, or None.

    A `SystemExit` is a failure if its code is neither None nor 0. For other numbers, the exception
    that was being handled is returned, if any: Hydra and ``torch.multiprocessing`` print the error
    of a training and exit with 1. A text describes the failure itself.
    """
    if isinstance(error, GeneratorExit):
        return None
    if not isinstance(error, SystemExit):
        return error
    if error.code is None or (isinstance(error.code, int) and error.code == 0):
        return None
    handled = error.__context__ if isinstance(error.code, int) else None
    return (cause_of(handled) if handled is not None else None) or error


def state_after(cause: BaseException) -> str:
    """Return the state of a run that ended with ``cause``: Ctrl-C interrupts, other causes fail."""
    return "interrupted" if isinstance(cause, KeyboardInterrupt) else "failed"


_MAX_MESSAGE_CHARS = 4000
_DEFAULT_SECRETS = Secrets()


def error_message(error: BaseException, secrets: Secrets = _DEFAULT_SECRETS) -> str:
    """Return the message of an exception, secrets masked, at most 4,000 characters. Never raises.

    If ``__str__`` of the exception fails, the message names its type.
    """
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 - a broken __str__ must not hide the failure
        let_pass(failure)
        text = f"<{type(error).__name__}, whose text could not be read>"
    return secrets.message(text)[:_MAX_MESSAGE_CHARS]


def error_traceback(error: BaseException, secrets: Secrets = _DEFAULT_SECRETS) -> str:
    """Return the traceback of an exception and its causes as Python prints it, secrets masked."""
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return secrets.message("".join(lines))

"""State and cause of failure of a run, derived from the exception that ended it."""

from __future__ import annotations

__all__ = ["cause_of", "state_after"]


def cause_of(error: BaseException | None) -> BaseException | None:
    """Return what went wrong, or None if nothing did.

    An exit is a failure if its code is neither None nor 0. A number says little: then the exception
    that was being handled is what went wrong, if there is one (Hydra and ``torch.multiprocessing``
    print the error of a training and exit with 1). A text is a reason of its own.

    Args:
        error: What left the ``with`` block, the worker or the script; None if it ended normally.
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

"""Asking a remote before a run begins: for a few seconds, as a training waits for nobody."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.remote.protocol import Settles, Unreachable

if TYPE_CHECKING:
    from seamark.remote.protocol import Remote

__all__ = ["PATIENCE_S", "ask_remote", "call_within"]

PATIENCE_S: Final = 5.0
"""How long the start of a run waits for what remotes know, in seconds."""

T = TypeVar("T")


def call_within(ask: Callable[[], T], name: str, seconds: float = PATIENCE_S) -> T:
    """Return what ``ask`` returns, which is left to itself where that takes too long.

    Args:
        ask: Called on a thread of its own.
        name: Of the thread.
        seconds: How long it may take.

    Raises:
        Exception: What it raised; `Unreachable` without an answer in time.
    """
    told: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            told.append(ask())
        except Exception as error:  # noqa: BLE001 - it may be somebody else's
            failed.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    with quietly(only=RuntimeError):  # at the end of the interpreter there are no further ones
        thread.start()
        thread.join(seconds)
    if told:
        return told[0]
    if failed:
        raise failed[0]
    msg = f"no answer within {seconds:g} s"
    raise Unreachable(msg)


def ask_remote(
    uri: str, token: str | None, ask: Callable[[Settles], T], seconds: float = PATIENCE_S
) -> T | None:
    """Return what a remote answers that can be asked who goes on; None of one that cannot.

    Args:
        uri: Of the remote.
        token: To show there.
        ask: Asks it.
        seconds: How long that may take.

    Raises:
        Exception: If it does not answer in time, or says no.
    """

    def opened() -> T | None:
        with fork.held_off():  # modules are imported
            remote: Remote = open_remote(uri, token)
        with contextlib.closing(remote):
            return ask(remote) if isinstance(remote, Settles) else None

    from seamark.remote.places import open_remote

    return call_within(opened, "seamark-settling", seconds)

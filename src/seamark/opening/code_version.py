"""The version of the code with which a run starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seamark.process.interrupts import quietly
from seamark.remote.asking import call_within

if TYPE_CHECKING:
    from seamark.capture.code.executed import CodeVersion
    from seamark.options.settings import Settings

__all__ = ["StartVersion"]

_PATIENCE_S: Final = 2.0
"""How long the start of a run waits for a disk to say what was executed, in seconds."""


@dataclass(frozen=True, slots=True)
class StartVersion:
    """The version of the code with which a run starts.

    Attributes:
        text: The version; empty if there is none, or if it is not known yet.
        executed: What it was found in; None where a person gave it.
    """

    text: str
    executed: CodeVersion | None = None

    @classmethod
    def of(cls, options: Settings) -> StartVersion:
        """Return what a person called the code, or else the version of what was executed so far.

        Waits for that, because a run is found by a hash of it, but no longer than two seconds.

        Args:
            options: Of the run.
        """
        if options.code_version is not None or not options.captures["script"]:
            return cls(options.code_version or "")
        with quietly():
            from seamark.capture.code.executed import CodeVersion
            from seamark.capture.code.script import Script

            script = Script.running()
            found = call_within(
                lambda: CodeVersion.at_start(script), "seamark-version", _PATIENCE_S
            )
            return cls(found.first, found)
        return cls("")

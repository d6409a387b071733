"""Exceptions of Seamark. Each also derives from the built-in exception that callers expect.

Messages contain the position of the mistake, the expected and the given value.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "DuplicateRunError",
    "FamilyError",
    "FileMissingError",
    "InactiveRunError",
    "JournalError",
    "KeyTakenError",
    "LoadedAlreadyError",
    "MissingExtraError",
    "MissingFieldError",
    "PathError",
    "QueryError",
    "ReadOnlyError",
    "RunExistsError",
    "RunNotFoundError",
    "RunNotNamedError",
    "SeamarkError",
    "StageError",
    "TwoNamesError",
    "UnknownArgumentError",
    "ValueKindError",
]


class SeamarkError(Exception):
    """Base of every error raised by Seamark."""


class PathError(SeamarkError, ValueError):
    """An attribute path, run id, project or name is invalid or reserved."""


class StageError(PathError):
    """The stage of a model version was assigned; use ``change_stage`` instead."""


class ArgumentError(SeamarkError, ValueError):
    """An argument has an invalid value."""


class KeyTakenError(ArgumentError):
    """The project already has a model with this key."""


class DuplicateRunError(ArgumentError):
    """An equal run exists, with ``on_duplicate="error"``."""


class RunExistsError(ArgumentError):
    """The destination already has a run with this id or name."""


class RunNotNamedError(ArgumentError):
    """The name of the run or model to open is missing."""


class TwoNamesError(ArgumentError):
    """Both ``with_id`` and ``custom_run_id`` were given."""


class UnknownArgumentError(SeamarkError, TypeError):
    """A keyword argument does not exist; the message names the nearest existing one."""


class FamilyError(SeamarkError, TypeError):
    """A path already holds values of another family (an atom, a float series, a file, ...)."""


class ValueKindError(SeamarkError, TypeError):
    """A value has a type that cannot be recorded at this path."""


class FileMissingError(SeamarkError, FileNotFoundError):
    """A file does not exist, or its bytes are no longer available."""


class MissingFieldError(SeamarkError, AttributeError, KeyError):
    """Nothing is recorded at the requested path."""

    def __str__(self) -> str:
        """Return the message as written; ``KeyError`` would show its ``repr``."""
        return str(self.args[0]) if self.args else ""


class RunNotFoundError(SeamarkError, LookupError):
    """No run with this id or name exists in the searched place."""


class InactiveRunError(SeamarkError, RuntimeError):
    """The run was stopped and can no longer be written to."""


class ReadOnlyError(SeamarkError, RuntimeError):
    """The run was opened with ``mode="read-only"`` and cannot be written to."""


class JournalError(SeamarkError, OSError):
    """A journal could not be created, written or read."""


class QueryError(SeamarkError, ValueError):
    """A query is invalid; the message points at the position."""


class LoadedAlreadyError(SeamarkError, ImportError):
    """The package that Seamark should replace is already imported."""


class MissingExtraError(SeamarkError, ModuleNotFoundError):
    """An optional package is missing; the message names the extra that installs it."""

"""Every error that Seamark raises, as one tree; each is also the built-in that callers expect.

Messages say where the mistake is, what was expected and what was given.
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
    """An attribute path, run id, project or name breaks the grammar, or is reserved."""


class StageError(PathError):
    """The stage of a model version is assigned; it is changed with ``change_stage``."""


class ArgumentError(SeamarkError, ValueError):
    """An argument has a value that cannot be used."""


class KeyTakenError(ArgumentError):
    """A model is to be made, and its project has one with this key."""


class DuplicateRunError(ArgumentError):
    """A run is to be started with ``on_duplicate="error"``, and there is one that is the same."""


class RunExistsError(ArgumentError):
    """A run is to be made or moved to a place where one with its id or its name is."""


class RunNotNamedError(ArgumentError):
    """A run is to be opened for reading, or a model at all, and nothing says which."""


class TwoNamesError(ArgumentError):
    """A run is named by ``with_id`` and by ``custom_run_id``."""


class UnknownArgumentError(SeamarkError, TypeError):
    """A keyword argument does not exist; the message names the nearest one that does."""


class FamilyError(SeamarkError, TypeError):
    """A path already holds values of another family (an atom, a float series, a file, ...)."""


class ValueKindError(SeamarkError, TypeError):
    """A value has a type that cannot be recorded where it was given."""


class FileMissingError(SeamarkError, FileNotFoundError):
    """A file that was named does not exist, or its bytes are no longer available."""


class MissingFieldError(SeamarkError, AttributeError, KeyError):
    """Nothing is recorded at a path that was read."""

    def __str__(self) -> str:
        """Return the message as written; ``KeyError`` would show its ``repr``."""
        return str(self.args[0]) if self.args else ""


class RunNotFoundError(SeamarkError, LookupError):
    """No run goes by this id or name where it was looked for."""


class InactiveRunError(SeamarkError, RuntimeError):
    """The run was stopped and can no longer be written to."""


class ReadOnlyError(SeamarkError, RuntimeError):
    """The run was opened with ``mode="read-only"`` and cannot be written to."""


class JournalError(SeamarkError, OSError):
    """A journal could not be created, written or read."""


class QueryError(SeamarkError, ValueError):
    """A query breaks the grammar; the message points at the place."""


class LoadedAlreadyError(SeamarkError, ImportError):
    """A package is loaded already in whose place Seamark was to be found."""


class MissingExtraError(SeamarkError, ModuleNotFoundError):
    """An optional package is missing; the message names the extra that installs it."""

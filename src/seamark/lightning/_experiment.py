"""What ``logger.experiment`` is on a rank that does not record."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from seamark.lightning import _host

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["silent_experiment"]

_FACTS = frozenset(
    {"checkpoints", "folder", "id", "mode", "name", "project", "root", "state", "writer"}
)


class _Silent:
    """Answers every verb of a Run, and anything else, by doing nothing.

    Reading gives None, or what a run gives of which nothing is recorded: other ranks have nothing
    to read from.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask for names that a stand-in must not have
            raise AttributeError(name)
        return getattr(self._run, name) if name in _FACTS else _nothing

    def __getitem__(self, key: object) -> _Silent:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __delitem__(self, key: object) -> None:
        pass

    # Without these two, Python would ask __getitem__ for 0, 1, 2, ... and never come to an end.
    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __contains__(self, key: object) -> bool:
        return False

    def __enter__(self) -> _Silent:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __repr__(self) -> str:
        return f"<stand-in for {self._run!r} on a rank that does not record>"

    def exists(self, _path: str) -> bool:
        return False

    def get_structure(self) -> dict[str, Any]:
        return {}

    def positions(self) -> dict[str, int]:
        return {}

    def get_root_object(self) -> _Silent:
        return self


def _nothing(*_args: object, **_kwargs: object) -> None:
    pass


@cache
def _silent_type(bases: tuple[type, ...]) -> type[_Silent]:
    return type("SilentExperiment", (_Silent, *bases), {"__module__": __name__})


def silent_experiment(run: Run) -> Any:
    """Return a stand-in that is a ``DummyExperiment`` of every imported Lightning."""
    return _silent_type(_host.dummy_experiments())(run)

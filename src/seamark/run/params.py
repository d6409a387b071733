"""`Run.params`: the hyperparameters of a run as a mapping."""

from __future__ import annotations

import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.errors import MissingFieldError, ValueKindError
from seamark.options.checks import PARAMETERS
from seamark.paths import check_writable, is_inside, join_path
from seamark.pictures.printing import show as print_line
from seamark.process.interrupts import logged
from seamark.process.rank import current_rank
from seamark.reading.attributes import CHANGES
from seamark.reading.text import hint_for
from seamark.run.lifecycle import NEW
from seamark.run.recorded import nest
from seamark.values import Atom, decode_atom, encode_atom, is_container, parameters
from seamark.values._atoms import members, thaw
from seamark.values._numbers import argument_error
from seamark.values._parameters import is_parameter, legal_key

if TYPE_CHECKING:
    from seamark.run.recorded import Recorded
    from seamark.run.session import Session


log = logging.getLogger("seamark")


def _recorded(recorded: Recorded) -> dict[str, Atom]:
    return {
        one.path: encode_atom(recorded.read_long_text(one.value))
        for one in recorded.attributes()
        if one.family == "atom" and is_parameter(one.path)
    }


class Params(MutableMapping[str, Any]):
    """The hyperparameters of a run: a view of the values under ``parameters/``.

    ``run.params["lr"]``, ``run.params.lr`` and ``run["parameters/lr"]`` are the same value. A
    nested mapping is such a view, too: ``run.params.optimizer.lr``. Keys that are names of methods
    (``keys``, ``update``, ...) are accessible by item only.

    Values come from memory, in every mode and on every rank: those that this process set, and those
    of the opened run. Secrets are not masked. Values are returned in their recorded form: a tuple
    as a list, a class or function as its name. Values recorded by an adapter (``hyperparams/``) can
    be read here, too; values set here take precedence.
    """

    __slots__ = ("_at", "_session")

    def __init__(self, session: Session, at: str = "") -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_at", at)

    # ---------------------------------------------------------------- reading

    def _known(self) -> dict[str, Atom]:
        session, origin = self._session, self._session.resume.origin
        parameters = session.recorder.parameters
        may_hold_more = session.options.names_a_run or origin.begun or origin.continues
        if may_hold_more and not parameters.has_recorded:
            with logged(f"the parameters of {session.recorded.words} could not be read"):
                parameters.add_recorded(partial(_recorded, session.recorded))
        found: dict[str, Atom] = parameters.by_name()
        if not (at := self._at):
            return found
        return {name[len(at) + 1 :]: each for name, each in found.items() if _below(name, at)}

    def __getitem__(self, key: str) -> Any:
        name, known = legal_key(key), self._known()
        if any(_below(one, name) for one in known):
            return Params(self._session, join_path(self._at, name))
        if name in known:
            return decode_atom(*known[name])
        hint = hint_for(name, known)
        raise MissingFieldError(f"params: there is no {join_path(self._at, name)!r:.200}{hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.partition("/")[0] for name in self._known()))

    def __len__(self) -> int:
        return len({name.partition("/")[0] for name in self._known()})

    def __contains__(self, key: object) -> bool:
        name = legal_key(key)
        return any(is_inside(one, name) for one in self._known())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self})

    def as_dict(self) -> dict[str, Any]:
        """Return all parameters as nested dicts.

        If ``a`` and ``a/b`` both have a value, that of ``a`` is under the key ``""``.
        """
        return nest(_decoded(self._known()))

    def __repr__(self) -> str:
        # Return the values, masked like the recorded ones.
        return f"Params({nest(self._masked(self._known()))!r})"

    def __reduce__(self) -> Any:
        """Pickle and copy as nested dicts, which can be changed without recording anything."""
        return dict, (self.as_dict(),)

    # ---------------------------------------------------------------- writing

    def __setitem__(self, key: str, value: Any) -> None:
        name = legal_key(key)
        flat = _flat({name: value})
        self._record(
            flat, [one for one in self._known() if one not in flat and is_inside(one, name)]
        )

    def __delitem__(self, key: str) -> None:
        name = legal_key(key)
        _ = self[key]  # raises if there is none
        self._record({}, [one for one in self._known() if is_inside(one, name)])

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name):
            raise AttributeError(
                f"params: {name!r} is the name of a method: use params[{name!r}] = ..."
            )
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]

    def update(  # type: ignore[override] # has two switches of its own
        self,
        new: Any = None,
        /,
        override: bool = True,  # noqa: FBT001, FBT002 - by position in t9k.em
        show: bool = False,  # noqa: FBT001, FBT002
        **more: Any,
    ) -> Namespace:
        """Record many values at once; nested ones are recorded one by one.

        Args:
            new: A mapping, dataclass, Namespace or OmegaConf; pairs of keys and values; or an
                ``ArgumentParser``, which reads the command line.
            override: Whether to replace existing values.
            show: Print the given values as a table, on rank 0.
            **more: Further values.

        Returns:
            The values in effect, by key: the given ones, or existing ones that were not replaced.

        Raises:
            ValueKindError: If ``new`` is none of these.
            FamilyError: If a path holds a series, a file or another family. Nothing is written in
                this case.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if new is None and isinstance(more.get("new_params"), Mapping):  # its name in t9k.em
            new = more.pop("new_params")
        given = {**_pairs(new), **more}
        flat = _flat(given)
        known = self._known()
        kept = {
            name
            for name in flat
            if not override and any(is_inside(one, name) or is_inside(name, one) for one in known)
        }
        if taken := {name: atom for name, atom in flat.items() if name not in kept}:
            self._record(taken)
        if show and not current_rank().rank:
            self._show(flat)
        left = {one.partition("/")[0] for one in kept}
        told = {}
        for key, value in given.items():
            name = legal_key(key)
            if name.partition("/")[0] in left:
                value = self[name]  # noqa: PLW2901 - what stands
                value = value.as_dict() if isinstance(value, Params) else value  # noqa: PLW2901
            told[key if isinstance(key, str) else name] = value
        return Namespace(**told)

    def _record(self, flat: Mapping[str, Atom], stale: Iterable[str] = ()) -> None:
        paths = {name: f"{PARAMETERS}/{join_path(self._at, name)}" for name in flat}
        atoms = {check_writable(paths[name]): atom for name, atom in flat.items()}
        session, recorder = self._session, self._session.recorder
        deleted = recorder.parameters.paths_of(join_path(self._at, name) for name in stale)
        begins = recorder.writer is None and recorder.mode != "read-only"
        if begins and session.lifecycle.phase == NEW and not deleted:
            session.record_facts(atoms)
            return
        recorder.values.check_values(atoms)
        for path in deleted:
            recorder.values.delete(path)
        recorder.values.record_atoms(atoms)

    def _masked(self, atoms: Mapping[str, Atom]) -> dict[str, Any]:
        return _decoded(self._session.recorder.secrets.atoms(atoms))

    def _show(self, flat: Mapping[str, Atom]) -> None:
        known = self._known()
        shown = self._masked({name: known.get(name, flat[name]) for name in flat})
        width = max(map(len, shown), default=0)
        for name, value in sorted(shown.items()):
            print_line(f"{name:<{width}}  {value}")

    def changes(self) -> dict[str, list[dict[str, Any]]]:
        """Return the values that any process changed after they were recorded, oldest first.

        Returns:
            By path, each value with the time at which it was set: ``{"value", "time"}``. The last
            one is current.
        """
        recorded, below = self._session.recorded, join_path(PARAMETERS, self._at)
        changes = recorded.value(CHANGES) or {}
        return {path: told for path, told in changes.items() if is_inside(path, below)}


def _pairs(new: Any) -> dict[Any, Any]:
    if new is None:
        return {}
    if isinstance(new, ArgumentParser):
        new = new.parse_args()
    new = thaw(new)
    if isinstance(new, Params):
        return new.as_dict()
    if not is_container(new):
        try:
            return dict(new)
        except (TypeError, ValueError):
            raise argument_error(
                new,
                "params",
                "a mapping, dataclass, Namespace, OmegaConf or ArgumentParser",
                ValueKindError,
            ) from None
    return dict(members(new) or ())


def _flat(given: Mapping[Any, Any]) -> dict[str, Atom]:
    plain = {
        key: value.as_dict() if isinstance(value, Params) else value for key, value in given.items()
    }
    return parameters(plain, "") if plain else {}


def _decoded(atoms: Mapping[str, Atom]) -> dict[str, Any]:
    return {name: decode_atom(*atom) for name, atom in atoms.items()}


def _below(name: str, namespace: str) -> bool:
    return name != namespace and is_inside(name, namespace)

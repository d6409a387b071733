"""First records of a run, and the lines that it prints."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError
from seamark.journal.folder import root_dir
from seamark.opening.place import is_deleted_at_exit
from seamark.opening.restarts import StartVersion, take_revision
from seamark.pictures.printing import is_quiet
from seamark.process.liveness import host_name
from seamark.process.rank import current_rank
from seamark.reading.attributes import Attribute
from seamark.reading.names import LATEST, generated_name
from seamark.run.container import is_tag
from seamark.run.shipping import transfer_to
from seamark.values import Atom, decode_atom, encode_atom

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.opening.opening import Origin
    from seamark.options.settings import Settings
    from seamark.run.lifecycle import Lifecycle
    from seamark.run.recorder import Recorder


log = logging.getLogger("seamark")

_VERSION: Final = "source_code/version"
_OWN: Final = ("sys/", "source_code/", "distributed/", "monitoring/")
"""Namespaces that are recorded automatically."""


class Introduction:
    """First records of a run: its arguments, and facts from adapters."""

    def __init__(self, options: Settings, recorder: Recorder, *, told: bool) -> None:
        self._options = options
        self._recorder = recorder
        self._made_at = datetime.now(timezone.utc)
        self.facts: dict[str, Atom] = {**options.params, **options.tags.keyed}
        recorder.parameters.take(self.facts)
        self.told = told

    def known(self) -> list[Attribute]:
        """Return the attributes that are known before the first record."""
        recorder = self._recorder
        if recorder.writer is not None or recorder.mode == "disabled" or recorder.silent:
            return []
        facts = {
            "sys/id": recorder.folder.run,
            "sys/state": "created",
            "sys/creation_time": self._made_at,
            **self._given(),
        }
        atoms = {path: encode_atom(fact) for path, fact in facts.items()}
        found = [
            Attribute(path, "atom", atom.type, decode_atom(atom.type, atom.value))
            for path, atom in {**atoms, **self.facts}.items()
        ]
        for path, words in self._sets().items():
            if words or path == "sys/tags":
                found.append(Attribute(path, "string_set", "string_set", set(words)))
        return found

    def _given(self) -> dict[str, str]:
        options = self._options
        project, _, name = (options.parent or "").rpartition("/")
        given = {
            "sys/name": options.name,
            "sys/description": options.description,
            "sys/custom_run_id": options.custom_run_id,
            "sys/parent": name if project == self._recorder.folder.project else options.parent,
        }
        return {path: text for path, text in given.items() if text is not None}

    def _sets(self) -> dict[str, tuple[str, ...]]:
        return {"sys/tags": self._options.tags.words, "sys/group_tags": self._options.groups}

    def tags(self) -> dict[str, Any]:
        """Return the given keyed tags by key."""
        given = {path: atom for path, atom in self.facts.items() if is_tag(path)}
        return {path.partition("/")[2]: decode_atom(*atom) for path, atom in given.items()}

    def record_facts(self, atoms: Mapping[str, Atom]) -> None:
        """Record facts with the first record, or now if there was one. Never raises."""
        recorder = self._recorder
        recorder.parameters.take(atoms)
        if recorder.writer is None:
            self.facts.update(atoms)
            return
        with recorder.guard("facts", "facts could not be recorded"):
            recorder.values.record_atoms(atoms)

    def record(self, *, owner: bool, is_new: bool) -> None:
        """Write the arguments of `init_run` and the facts."""
        options, recorder = self._options, self._recorder
        if options.name == LATEST:
            log.warning(
                "seamark: the name %r always means the newest run, whatever its name", LATEST
            )
        given: dict[str, Any] = self._given()
        given = {path: recorder.contents.hide(path, text) for path, text in given.items()}
        if is_new:
            given |= take_revision(options, recorder.folder, self.version)
        if owner:
            given |= self.of_owner()
        recorder.values.assign_quietly(given)
        for path, words in self._sets().items():
            if words:
                recorder.values.change_set("add", path, words)
        if self.facts:
            recorder.values.record_atoms(self.facts)
        if (config := options.config_path) is not None:
            self._record_inputs(config.inputs)

    def end(self) -> None:
        """Stop recording the run's arguments: this or another process has recorded them."""
        self.told = True

    def _record_inputs(self, inputs: Mapping[str, str]) -> None:
        from seamark.run.lineage import Associations

        associations = Associations(self._recorder, self._options)
        for name, target in inputs.items():
            path = f"artifacts/inputs/{name}"
            with self._recorder.guard("input", f"{path!r} could not be recorded"):
                associations.mark("input", target, name)

    def of_owner(self) -> dict[str, Any]:
        """Return facts of the training process by path: host, code version, ranks, remotes."""
        facts = {"sys/hostname": host_name(), **_distributed(self.facts)}
        if (version := self.version).text:
            facts[_VERSION] = (  # a digest contains no secret
                version.text
                if version.executed
                else self._recorder.contents.hide(_VERSION, version.text)
            )
        folder, name, now_ns = self._recorder.folder, self._options.name, time.time_ns()
        return facts | dict(transfer_to(folder, uri, name, now_ns) for uri in self._options.remotes)

    @cached_property
    def version(self) -> StartVersion:
        """Version of the code at the first access."""
        return StartVersion.of(self._options)

    def keep_sources(self, lifecycle: Lifecycle) -> None:
        """Store the ``source_files`` until the run ends."""
        sources = self._options.source_files
        if sources and not self.told:
            from seamark.run.uploads import SourceFiles

            lifecycle.before_end(SourceFiles(self._recorder, sources).finish)

    def greet(self, origin: Origin) -> None:
        """Print the location of the run."""
        recorder, begun = self._recorder, origin.begun
        # Without a position, a warning has explained why nothing can be written yet.
        if recorder.positions() and not is_quiet():
            what = f"recording attempt {begun.number} to" if begun else "recording to"
            remotes = self._options.remotes
            sent = f", sending to {_named(remotes)}" if remotes else ""
            _print_line(recorder.folder, what, sent, self.called(origin))

    def called(self, origin: Origin) -> str:
        """Return the generated name of an unnamed run created by this process, else its id."""
        run, writer, options = self._recorder.folder.run, self._recorder.writer, self._options
        is_new = not (options.names_a_run or origin.begun or origin.continues)
        if is_new and writer is not None and "sys/name" not in writer.families:
            return generated_name(run)
        return run

    def covers(self, paths: Iterable[str]) -> bool:
        """Return whether all paths belong to the records that every run makes at its start."""
        chosen = self._options.monitoring_namespace
        own = (*_OWN, f"{chosen}/") if chosen else _OWN
        config = self._options.config_path
        inputs = {f"artifacts/inputs/{name}" for name in (config.inputs if config else ())}
        told = self.facts.keys() | inputs
        return all(path in told or path.startswith(own) for path in paths)


def _distributed(told: Mapping[str, Any]) -> dict[str, Any]:
    rank = current_rank()
    if (rank.world_size or 1) == 1 or any(path.startswith("distributed/") for path in told):
        return {}
    facts = {"launcher": rank.launcher, "world_size": rank.world_size}
    return {f"distributed/{name}": fact for name, fact in facts.items() if fact is not None}


def print_end(
    folder: RunFolder, called: str, state: str, lost: int, sent: Sequence[str] = ()
) -> None:
    """Print how a run ended to stderr; if quiet, only losses. Never raises."""
    if is_quiet() and not lost:
        return
    what = "value or record was" if lost == 1 else "values or records were"
    tail = f", {lost:,} {what} lost" if lost else ""
    there = f", sent to {_named(sent)}" if sent else ""
    _print_line(folder, f"{state}{tail}:", there, called)


def _print_line(folder: RunFolder, what: str, there: str, called: str) -> None:
    try:
        where = os.path.relpath(folder.path)
        root = "" if _is_found(folder) else f" --root {os.path.relpath(folder.root)}"
        hint = f"see it with: seamark show {called}{root}"
        if is_deleted_at_exit(folder.root):
            hint = "debug mode: deleted when this process ends"
        print(f"seamark: {what} {where}{there} ({hint})", file=sys.stderr, flush=True)  # noqa: T201
    except Exception:  # noqa: BLE001, S110 - a closed stderr must not end a training
        pass


def _is_found(folder: RunFolder) -> bool:
    try:
        return not os.environ.get("SEAMARK_REMOTE") and folder.root == root_dir()
    except ArgumentError:  # the run that it would find belongs to another user
        return False


def _named(uris: Sequence[str]) -> str:
    from seamark.remote.schemes import shown

    return " and ".join(shown(uri) for uri in uris)

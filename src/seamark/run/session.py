"""Part of one process in a run: the object behind `seamark.Run`, which adapters use, too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any

from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.journal.writer import SYNC_S
from seamark.opening.machine import copy_run
from seamark.opening.opening import Opening
from seamark.opening.place import expect_writable, reading_place
from seamark.paths import join_path
from seamark.process import fork
from seamark.process.liveness import memory_groups, process_facts
from seamark.process.rank import current_rank, job_key
from seamark.run.attempts import Resume
from seamark.run.container import TagCheck
from seamark.run.distribution import LateRank
from seamark.run.ending import Ending
from seamark.run.introduction import Introduction, print_end
from seamark.run.lifecycle import RECORDING, RESTING, STOPPED, WAITING, Lifecycle
from seamark.run.ranks import RankPolicy, rank_has_recorded
from seamark.run.recorded import Recorded
from seamark.run.recorder import Recorder
from seamark.run.shipping import Shipping
from seamark.run.state import OwnState, check_state, expect_owned, has_other_owner

if TYPE_CHECKING:
    from seamark.blobs import BlobWriter
    from seamark.capture import Secrets
    from seamark.errors import SeamarkError
    from seamark.journal.writer import JournalWriter
    from seamark.opening.opening import Saved
    from seamark.run.claims import Hold
    from seamark.values import Atom
    from seamark.values.aggregates import Keep


@dataclass(frozen=True)
class Carried:
    """State of a run that is passed to another session or process.

    ``made_in`` is the pid of the process that generated the run's id, None for a copy. The run is
    ``introduced`` if name, tags and parameters have been recorded already. A process
    ``contributes`` if it opened the run and has not continued it. The ranks are ``connected`` if
    they agreed on the earlier run that this one continues.
    """

    made_in: int | None = None
    introduced: bool = False
    owner: bool | None = None
    contributes: bool = False
    connected: bool = False
    facts: Mapping[str, Atom] = field(default_factory=dict)
    keep: Mapping[str, Keep] = field(default_factory=dict)
    params: Mapping[str, Atom] = field(default_factory=dict)


class Session:
    """Part of one process in a run; `recorder` writes it, and `recorded` reads it."""

    def __init__(self, opening: Opening, carried: Carried) -> None:
        self.options = options = opening.options
        folder, owner, remote = opening.folder, carried.owner, opening.remote
        self._inherited: JournalWriter | None = None
        self._late: LateRank | None = None
        self.lifecycle = Lifecycle()
        self.policy = RankPolicy(options, carried.made_in, connected=carried.connected)
        self.recorder = Recorder(
            folder,
            options.mode,
            self.lifecycle,
            self.policy,
            header=self._header,
            start=self._start,
            secrets=options.hidden(),
            keep={**(options.keep or {}), **carried.keep},
            expect_tags=lambda atoms: self.tags.expect(atoms),  # noqa: PLW0108 - made later
            after_t=remote.largest_t if remote else 0,
        )
        self.shipping = Shipping(options.remotes, options.api_token, self.recorder)
        self.introduction = Introduction(options, self.recorder, told=carried.introduced)
        self.state = OwnState(
            opening,
            self.recorder,
            self._revive,
            owner=options.owner if owner is None else owner,
            may_reopen=not carried.contributes,
        )
        self.resume = Resume(opening, self.recorder)
        self.recorded = Recorded(
            folder,
            self.policy,
            known=self.introduction.known,
            disabled=options.mode == "disabled",
            place=reading_place(options),
            token=options.api_token,
            remotes=options.remotes,
            is_partial=remote is not None or (opening.is_unanswered and not folder.journals()),
            settle=self.recorder.kept.write,
        )
        self.tags = TagCheck(self.recorded, options.remotes, options.api_token)
        self.hold: Hold | None = None
        self.ending = Ending(
            options,
            self.recorder,
            self.recorded,
            self.introduction,
            self.lifecycle,
            self.state,
            self.shipping,
            self._print_end,
        )
        fork.register(self.after_fork)
        if carried.facts:
            self.record_facts(carried.facts)
        self.recorder.parameters.atoms.update(carried.params)

    @property
    def folder(self) -> RunFolder:
        """The folder of the run."""
        return self.recorder.folder

    # ---------------------------------------------------------------- recording, for adapters

    @property
    def recording(self) -> bool:
        """Whether this process can record: not on silent ranks, not once stopped or read-only."""
        return self.recorder.recording

    @property
    def speaks_for_all(self) -> bool:
        """Whether this process records the data common to all ranks: values, tags, files."""
        return self.recorder.speaks_for_all

    @property
    def content(self) -> BlobWriter:
        """Writer that takes and stores files."""
        return self.recorder.contents.files

    @property
    def secrets(self) -> Secrets:
        """Secrets that are masked in the records of this run."""
        return self.recorder.secrets

    def begin(self) -> bool:
        """Start the run for files, whose storing does not; return whether this process records."""
        return self.recording and self.recorder.to_write() is not None

    def record_op(self, op: Mapping[str, Any]) -> bool:
        """Append one op; see `Values.record_op`."""
        return self.recorder.values.record_op(op)

    def record_atoms(self, atoms: Mapping[str, Atom]) -> bool:
        """Append values that are encoded already; see `Values.record_atoms`."""
        return self.recorder.values.record_atoms(atoms)

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count a lost record, and warn once about it. Never raises."""
        self.recorder.drop(reason, count, warn)

    def before_end(self, call: Callable[[], None]) -> None:
        """Register a call before this process ends the run or rests it, once; errors are logged."""
        self.lifecycle.before_end(call)

    def record_facts(self, atoms: Mapping[str, Atom]) -> None:
        """Record facts with the first record, or now if there was one. Never raises."""
        self.introduction.record_facts(atoms)

    def series_base(self, base: str) -> str:
        """Return the namespace of the series of this process below another namespace.

        A rank above 0 that records, too, uses ``ranks/<rank>`` there. For the empty namespace, the
        run as a whole, the recorder itself adds that.
        """
        rank = self.policy.apart if base else 0
        return join_path(base, f"ranks/{rank}") if rank else base

    # ---------------------------------------------------------------- opening

    def begin_at_once(self) -> None:
        """Open the journal and record the arguments now; raises as `seamark.init_run` does."""
        if self.recorder.mode == "read-only":
            self.expect_place()
            return
        if self.options.ranks == "all":
            # In any mode: a rank that is disabled must not leave the others waiting.
            found = self.agree(self.policy.refusal(self.folder, self._expect_origin))
            assert found is self  # noqa: S101 - nothing was recorded or read yet
            self.policy.begin()
        elif not self.policy.is_follower:
            self._expect_origin()
        self.open_at_once()

    def open_at_once(self) -> None:
        """Open the journal, if this process records."""
        if not self.policy.silent:
            expect_writable(self.recorder.folder)
        self.recorder.to_write()

    def expect_place(self) -> None:
        """Raise `RunNotFoundError` or `ArgumentError` if the run is missing or was purged."""
        if self.resume.opening.refusal is not None:
            raise self.resume.opening.refusal
        self.tags.expect(self.options.tags.keyed)

    def _expect_origin(self) -> None:
        self.expect_place()
        self.resume.expect_found()

    def _start(self) -> None:
        if self._inherited is not None and self._continue_after_fork(self._inherited):
            return
        self.resume.expect_found()
        folder, remote = self.recorder.folder, self.resume.opening.remote
        origin = self.resume.origin
        existed = remote is not None or bool(folder.journals())
        there = () if remote is None else remote.journals.values()
        has_owner = existed and has_other_owner([*headers(folder), *there], origin.lineage)
        rank, waits = self.policy.apart, not self.options.start
        self.state.begin(owns=bool(rank or origin.begun or not has_owner))
        self._open_journal(rank, existed=existed, waits=waits)
        if not rank and self.options.owner is not False:
            # Looks at heartbeats and at the end whether this process is rank 0, as it seems to be.
            self._late = LateRank(
                self.options,
                self.recorder,
                self.policy,
                self.state,
                self.resume,
                own=self._own,
                stop=lambda: self.ending.finish("stop"),
            )
            self.lifecycle.on(heartbeat=self._late.beat, stop=self._late.check)
        if self.state.owner and not (waits and (existed or rank)):
            self.state.set("created" if waits else "running")
        if not self.introduction.told and not rank:
            self.introduction.record(owner=bool(self.state.owner), is_new=not existed)
        if existed:
            self.state.take_over(self.lifecycle)
        if not waits:
            self.ending.expect()
            self._go_on()

    def _open_journal(self, rank: int, *, existed: bool, waits: bool) -> None:
        self.lifecycle.enter(WAITING if waits else RECORDING)
        knows = existed and (
            self.resume.opening.remote is not None or rank_has_recorded(self.folder, rank)
        )
        self.recorder.open(
            self.state.learn if knows else None,
            before_points=self._before_points if waits or self.state.owner is None else None,
        )
        if waits:
            self.recorder.beat_every(SYNC_S)  # its journal is closed at the next heartbeat
            self.ending.expect()

    def _header(self) -> dict[str, Any]:
        from seamark import __version__

        self.shipping.begin()  # here, as a forked child opens journals of its own
        state, here = self.state, self.state.is_recording_process  # a forked helper is not an owner
        rank, apart = current_rank(), self.recorder.rank
        owner = bool(state.owner) and here and not apart
        return {
            "seamark": __version__,
            **self.resume.header(owner=owner, takes_part=state.owner is not False and here),
            "owner": owner,
            **process_facts(),
            "cgroup": memory_groups(),
            "rank": apart or rank.rank,
            "ranks": self.options.ranks,
            "world_size": rank.world_size,
            "launcher": rank.launcher,
            "job": job_key(),
        }

    def _go_on(self) -> None:
        if self.lifecycle.phase in (RESTING, WAITING):
            self.ending.go_on()
        if self.state.owner is not False:
            self.ending.begin_captures(self.resume.origin)
        self.introduction.end()

    def start(self) -> None:
        """Start a run that was recorded with ``start=False``; see `seamark.Run.start`."""
        if self.recorder.to_write() is None or not self.state.is_recording_process:
            return
        self.recorder.announce()
        if not self.state.owner and self.recorded.view().state == "created":
            expect_owned("start", self.folder.words, owned=self.state.owner is None)
            self.own()

    # ---------------------------------------------------------------- ownership and state

    def own(self) -> None:
        """Note that this process trains the run, so that this process sets the run's state.

        What its server has of the run, and this disk does not, is copied first. Does nothing where
        that is decided already: see ``owner`` of `init_run`. Never raises.
        """
        if self.state.owner is None:
            self._copy_run()
        self._own()

    def _copy_run(self) -> None:
        if self.resume.opening.remote is not None and self.recorder.recording:
            self.resume.adopt(copy_run(self.resume.opening, trains=True))
            self.recorded.note_copied(is_partial=self.resume.opening.remote is not None)

    def _own(self) -> None:
        if self.lifecycle.phase == STOPPED or not self.state.own():
            return
        if (writer := self.recorder.writer) is None:
            return
        with self.recorder.guard("state", "this process's ownership could not be recorded"):
            writer.rotate()  # the header of the next journal names the owner
            self.state.set("running")
            self.recorder.values.assign_quietly(self.introduction.of_owner())
            self._go_on()
            self.state.take_over(self.lifecycle)

    def _before_points(self, paths: Collection[str]) -> bool:
        # A run that is reopened is owned from its first point on; True ends these checks.
        if self.lifecycle.phase == WAITING and self.state.is_recording_process:
            if self.state.owner:
                self.state.set("running")
            self._go_on()
        if paths and self.state.is_reopened:
            self._own()
        return self.state.owner is not None or self.state.warn_of_series(paths)

    def set_state(
        self, state: str, *, detail: str | None = None, error: BaseException | None = None
    ) -> None:
        """See `seamark.Run.set_state`."""
        check_state(state, detail, error)
        if self.recorder.to_write() is None:
            return
        owned = bool(self.state.owner) and self.state.is_recording_process
        expect_owned("set_state", self.folder.words, owned=owned)
        if state == "running":
            self.recorder.announce()
            self._revive()
        if error is not None:
            self.ending.note_error(error, asked=True)
        self.recorder.kept.write()
        self.state.set(state, detail=detail, error=error)

    def go_on(self) -> None:
        """Set a run of this process that has ended or not begun to running. Never raises."""
        if self.lifecycle.phase == WAITING:
            self.recorder.announce()
        else:
            self.state.note("running")

    def _revive(self) -> None:
        if self.lifecycle.phase == RESTING:
            self._go_on()

    def claimed(self, hold: Hold) -> None:
        """Note that this process has claimed the run; see `seamark.Project.claim`."""
        self.hold = hold
        hold.begin(self.recorder, on_loss=self.state.disown)
        self.lifecycle.on(heartbeat=hold.look, stop=hold.end, closed=hold.release)

    # ---------------------------------------------------------------- ranks and attempts

    def agree(self, refusal: SeamarkError | None = None) -> Session:
        """Return the session of the run that all ranks record into: that of rank 0.

        Every rank has to call this. For loggers, which make their id before the ranks can
        communicate; once a process group or Horovod is initialised. Without either, or if the id is
        known to the other ranks anyway, it is this session. A ``refusal`` of rank 0 is raised on
        all ranks.
        """
        begun = self.resume.origin.begun
        decision = self.policy.receive_decision(
            self.folder, None if begun is None else begun.number, refusal
        )
        if decision is None:
            return self
        found, (there, attempt) = self, decision
        if there != self.folder:
            if self.recorder.writer is None and not self.recorded.has_read:
                # Whoever holds it holds the right one.
                self.recorder.folder = self.recorded.folder = there
                self.resume.adopt(replace(self.resume.opening, folder=there))
            else:
                found = self.at(there.run, there.project)
        found.policy.agree()
        found.recorder.ask_again()  # this process may now record what another rank recorded
        if current_rank().rank:  # rank 0 answers for this rank
            found.resume.follow(attempt)
        return found

    def at(self, run: str, project: str | None = None) -> Session:
        """Return a session of another run that continues this one; nothing is on disk yet."""
        here = self.folder
        folder = RunFolder(here.root, project or here.project, run)
        return self.continue_with(
            Opening(self.options, folder, self.resume.opening.origin.at(None))
        )

    def continue_with(self, opening: Opening) -> Session:
        """Return a session that continues this one as another run."""
        carried = Carried(
            made_in=self.policy.made_in,
            connected=self.policy.connected_at_start,
            facts=self.introduction.facts,
            keep=self.recorder.kept.travelling(),
            params=self.recorder.parameters.atoms,
        )
        return Session(opening, carried)

    def begin_attempt(self, saved: Saved) -> None:
        """Begin a new attempt, which continues from a checkpoint of the run."""
        self._copy_run()
        if self.resume.begin_attempt(saved) is not None:
            self._own()

    # ---------------------------------------------------------------- rest and end

    def rest(self, state: str = "completed", *, error: BaseException | None = None) -> None:
        """Note how a training has ended, and rest; see `Ending.rest`. Never raises."""
        self.ending.rest(state, error=error)

    def _print_end(self, state: str, lost: int, sent: list[str]) -> None:
        print_end(self.folder, self.introduction.called(self.resume.origin), state, lost, sent)
        if self._late is not None:
            self._late.warn_of_slurm_tasks()

    # ---------------------------------------------------------------- other processes

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again: it may be another rank."""
        self.recorder.after_fork()
        if self.options.ranks == "all" and self.recorder.writer is not None:
            self._inherited = self.recorder.let_go()

    def _continue_after_fork(self, inherited: JournalWriter) -> bool:
        """Record in a forked child as a helper of its parent; False if it is another rank."""
        self._inherited = None
        if self.recorder.rank == current_rank().rank:
            self.recorder.use(inherited)
            return True
        self.introduction.end()
        return False

    def __reduce__(self) -> Any:
        """Pickle only the state for a copy, which opens a journal when it records something."""
        recorder, owner = self.recorder, self.state.owner
        params = recorder.parameters.atoms
        if get_spawning_popen() is None:  # else it goes to a process of this training, by a pipe
            params = recorder.secrets.atoms(params)
        waits = self.lifecycle.phase == WAITING
        options = self.options if waits else replace(self.options, start=True)
        carried = Carried(
            introduced=self.introduction.told or recorder.writer is not None,
            owner=owner,
            contributes=owner is None and recorder.writer is not None,
            facts=recorder.secrets.atoms(self.introduction.facts),
            keep=recorder.kept.travelling(),
            params=params,
        )
        opening = replace(
            self.resume.opening,
            options=options,
            folder=self.folder,
            origin=self.resume.origin,
            refusal=None,
        )
        return Session, (opening, carried)

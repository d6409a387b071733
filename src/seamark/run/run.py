"""A run: what `init_run` returns and a training script holds."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeVar

from seamark.capture import Capture, Secrets, Switches
from seamark.errors import SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.writer import CLOSE_TIMEOUT_S, JournalWriter
from seamark.paths import join_path
from seamark.process import fork
from seamark.process.crashes import memory_groups
from seamark.process.interrupts import quietly
from seamark.process.job import job_key
from seamark.process.liveness import process_facts
from seamark.process.rank import connected, current_rank
from seamark.run import at_exit
from seamark.run.arriving import resolve_name_conflict
from seamark.run.associated import Associations
from seamark.run.captured import Captured
from seamark.run.chrono import Chrono, Chronos
from seamark.run.claims import CLAIMED_BY, Hold, claimed_by
from seamark.run.container import INTERNAL, Container
from seamark.run.distribution import distribution_of
from seamark.run.drawing import Asked
from seamark.run.elsewhere import Elsewhere, find_elsewhere, look_elsewhere
from seamark.run.introduction import Introduction, print_end
from seamark.run.late_rank import LateRank
from seamark.run.lifecycle import RECORDING, RESTING, STOPPED, WAITING, Lifecycle
from seamark.run.opened import has_other_owner
from seamark.run.options import RunOptions, check_arguments, names_arguments
from seamark.run.params import Held, Params
from seamark.run.partly import is_whole
from seamark.run.place import expect_place, expect_writable, reading_place, run_folder
from seamark.run.plotting import plot_run
from seamark.run.positional import parse_positional_argument
from seamark.run.progress import Loops, Progress
from seamark.run.ranks import RankPolicy, rank_has_recorded
from seamark.run.recorded import Recorded
from seamark.run.recorder import Recorder
from seamark.run.resume import Origin, Resume, Saved, origin_of
from seamark.run.shipping import Shipping
from seamark.run.state import OwnState, check_state, expect_owned
from seamark.run.tags import TagCheck, is_tag
from seamark.run.through import Through
from seamark.run.together import Together
from seamark.run.transfers import TRANSFERS, transfers_of
from seamark.run.twins import Revisions
from seamark.values import Atom, decode_atom, encode_atom

if TYPE_CHECKING:
    import re

    from seamark.blobs import BlobWriter
    from seamark.reading.arriving import Conflict
    from seamark.reading.points import Attempt
    from seamark.reading.recorded_errors import RecordedError
    from seamark.reading.report import Report
    from seamark.reading.stragglers import RankTiming
    from seamark.run.lineage import Lineage
    from seamark.values.keeping import Keep

__all__ = ["Run", "init_run", "make_run"]

log = logging.getLogger("seamark")

T = TypeVar("T")

_STAGED_S: Final = 2.0
"""Seconds that the end of a run waits for files that earlier processes left to be stored."""

_WITHDRAWN_S: Final = 5.0
"""Seconds to wait for the disk where a run is left that goes on elsewhere."""


def init_run(
    first: str | None = None,
    /,
    *,
    project: str | None = None,
    name: str | None = None,
    with_id: str | os.PathLike[str] | None = None,
    custom_run_id: str | None = None,
    mode: str | None = None,
    description: str | None = None,
    tags: str | Iterable[str] | Mapping[str, Any] | None = None,
    groups: str | Iterable[str] | None = None,
    parent: Run | str | None = None,
    root: str | os.PathLike[str] | None = None,
    params: Any = None,
    keep: Mapping[str, Keep] | None = None,
    config_path: str | os.PathLike[str] | None = None,
    owner: bool | None = None,
    start: bool | None = None,
    ranks: str = "zero",
    resume: str = "auto",
    on_duplicate: str = "new",
    checkpoints: str | None = None,
    remote: str | Iterable[str] | None = None,
    conflict: Conflict | None = None,
    make_project: bool | None = None,
    api_token: str | None = None,
    git_ref: Any = None,
    code_version: str | Callable[[], str] | None = None,
    source_files: str | Iterable[str] | None = None,
    dependencies: str | os.PathLike[str] | None = None,
    capture_stdout: bool | Literal["fd"] | None = None,
    capture_stderr: bool | Literal["fd"] | None = None,
    capture_limit: str | None = None,
    capture_hardware_metrics: bool | None = None,
    capture_traceback: bool | None = None,
    capture_script: bool | None = None,
    capture_packages: bool | None = None,
    capture_host: bool | None = None,
    capture_git: bool | None = None,
    capture_signals: bool | None = None,
    monitoring_namespace: str | None = None,
    fail_on_exception: bool | None = None,
    mask_secrets: bool | None = None,
    secrets: Iterable[str | re.Pattern[str]] | None = None,
    **others: Any,
) -> Run:
    """Start a run, or open one that exists, and return it.

    Every argument of ``neptune.init_run`` 1.14 is accepted under its own name; switches are on
    unless set to False.

    Args:
        first: The project. What looks like an id, such as ``KEY-12``, is ``with_id`` if a run has
            that id and no project that name, and beside ``project=`` in any case.
        project: Path of the project, such as ``"team/mnist"``; SEAMARK_PROJECT, NEPTUNE_PROJECT or
            ``"default"``.
        name: Display name, free text; an empty one is none.
        with_id: An existing run to open: its id, its name (recorded or generated), ``"latest"``, or
            one of these behind ``PROJECT/``. Without that it is looked for in ``project`` and its
            sub-projects. The beginning of an id is enough with ``mode="read-only"``. Or its place:
            its folder, as a path or a ``file://`` URI, or ``https://server/PROJECT/NAME``.
        custom_run_id: A name under which several processes find the same run;
            SEAMARK_CUSTOM_RUN_ID.
        mode: ``"online"``, ``"async"`` and ``"sync"`` are the same; ``"offline"`` sends nothing;
            ``"read-only"`` opens with_id for reading; ``"disabled"`` does nothing; ``"debug"``
            records into a temporary root. SEAMARK_MODE.
        description: Free text.
        tags: One string or several, for ``sys/tags``; or a mapping of keys to values, which are
            kept under ``tags/``.
        groups: Names of the groups that the run is in, for ``sys/group_tags``.
        parent: The run that this one is a part of (a fold, a trial), for ``sys/parent``: the run,
            its id, or ``PROJECT/ID``.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``, see the page on
            environment variables.
        params: Hyperparameters, kept under ``parameters/``; see `Run.params`.
        keep: What is kept of fast series in place of their points, by path or pattern, such as
            ``{"gpu/*": seamark.Statistics(skip=10)}``; see `Handler.keep`.
        config_path: A YAML or JSON file that says some of what a run is given: these arguments but
            ``keep`` and ``api_token``, and ``inputs`` (paths and URLs, by name or in a list). What
            it says wins over arguments, and these over the environment; parameters, tags and
            groups of both are taken together.
        owner: Whether this process decides the run's state. None: a process that creates a run
            does, and so does one that opens a run that was not ended and has no living owner, from
            its first number on, and one that begins a training in it. True goes on with a run that
            completed or failed; False is for scripts that only add something.
        start: False records the run in state ``"created"``, with what it is given here and later,
            but without captures and heartbeat. It is running from `Run.start` on, from
            ``with run:``, or from its first point.
        ranks: ``"zero"``: only rank 0 records, other ranks hold a silent run. ``"all"``: every rank
            records into one run, its series under ``ranks/<rank>/`` unless it is rank 0; values,
            tags and files are those of rank 0. Every rank has to call this then, with the same
            ``with_id`` (a whole id) or ``custom_run_id``, or once ``init_process_group()`` or
            ``hvd.init()`` has connected them.
        resume: ``"auto"``: a job that its launcher restarted, or that loads a checkpoint, continues
            its run. ``"never"``: each start is a new run. ``"must"``: a run to resume has to exist,
            named by ``with_id``, ``custom_run_id``, a restart or a checkpoint.
        on_duplicate: What is done if the project has a run with the same parameters and the same
            code, as they are at the start: ``"new"`` begins another, ``"reuse"`` goes on with the
            newest of them, ``"error"`` refuses. The latter two need ``params`` or a ``config_path``
            with some, and look at this disk and then at the remote; if that does not answer within
            5 s, this disk decides alone.
        checkpoints: ``"reference"`` or ``"keep"``; None means keep with a remote, else reference.
        remote: Where the run is sent while it is recorded: the address of a Seamark server such as
            ``"https://seamark.lab"``, another root such as ``"file:///mnt/runs"``, or several.
            SEAMARK_REMOTE, separated by commas. It is recorded on this disk in any case.
        conflict: What becomes of a new run where another one of its project has its ``name`` at a
            remote: ``"new"`` calls it ``<name>-2``, ``"skip"`` does not send it there, ``"error"``
            raises, ``"replace"`` puts the other one into the trash there. None asks nobody.
        make_project: False refuses a project that is not there at a remote; else it is made.
        api_token: For remotes; kept in memory only. SEAMARK_API_TOKEN, or what ``seamark login``
            has kept.
        git_ref: A repository's path, or False to record nothing of git.
        code_version: What the code that trains is called, for ``source_code/version``; or a
            function without arguments that returns it, which is called at once. None: a hash of
            what is executed and is no installed package.
        source_files: Files, folders and patterns to store under ``source_code/files``: at most
            2,000 files and 100 MiB, taken while the training goes on, without what ``.gitignore``
            names below a folder or in a pattern. None: the script that runs; an empty list: none.
        dependencies: ``"infer"`` keeps what is installed as a requirements file, too, under
            ``source_code/requirements``; a path keeps that file there.
        capture_stdout: Record what Python code prints; ``"fd"`` also what C libraries and
            subprocesses write.
        capture_stderr: The same for what goes to standard error.
        capture_limit: How much output is recorded: an amount a minute, one in all, or both, such as
            ``"1MiB/min, 500MiB"``; None for ``"1MiB/min"``.
        capture_hardware_metrics: Record what CPU, memory, disk, network and GPUs do.
        capture_traceback: Record the traceback of an uncaught exception.
        capture_script: Record the script or the notebook, its arguments, and a version of the code
            that is executed, secrets masked.
        capture_packages: Record the versions of Python and of installed packages.
        capture_host: Record where the process runs: hardware, system, container, cluster,
            notebook service, torch's build, and host name and pid with them. ``sys/hostname`` and
            the writer's id name the host in any case.
        capture_git: Record commit, branch, dirty state and remote, what has changed since the
            commit, and the names of untracked files.
        capture_signals: Mark the run when SIGTERM arrives.
        monitoring_namespace: Path to use instead of ``monitoring/<writer>``.
        fail_on_exception: Whether an uncaught exception fails the run.
        mask_secrets: Whether what looks like a secret is recorded as ``***``, in values, texts and
            arguments; SEAMARK_MASK_SECRETS or True.
        secrets: What else is one: names such as ``"patient_id"``, and regular expressions of values
            such as ``"acme-[0-9a-f]{32}"``; SEAMARK_SECRETS, one a line.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        ArgumentError: If arguments contradict each other or have no legal value, if ``with_id`` may
            be any of several runs, or if ``ranks="all"`` and the ranks cannot agree on one run.
            Of a ``config_path``, file, line and column are named.
        DuplicateRunError: If ``on_duplicate="error"`` and there is a run that is the same.
        FileMissingError: If there is no file at ``config_path``.
        PathError: If the project's path breaks the grammar.
        RunNotFoundError: If ``with_id`` names no run, or if ``resume="must"`` and there is none.
        RunExistsError: If another run has its name at a remote, with ``conflict="error"``.
        JournalError: If the root cannot be written to.
    """
    check_arguments(others)
    given = {key: value for key, value in locals().items() if key not in ("first", "others")}
    run = _made(parse_positional_argument(first, given))
    run.begin_at_once()
    return run


def make_run(**given: Any) -> Run:
    """Return a run that touches no disk and captures nothing until its first record.

    Args:
        **given: The arguments of `init_run`.

    Raises:
        ArgumentError: If arguments contradict each other or have no legal value.
        PathError: If a name cannot be a folder.
        RunNotFoundError: If ``with_id`` names no run; on a rank above 0 that is rank 0's to say.
    """
    run = _made(given)
    if not run.follows_zero:
        run.expect_place()
    return run


def _made(given: Mapping[str, Any]) -> Run:
    options = RunOptions.of(**given)
    folder = run_folder(options)
    if (same := Revisions(options, folder).find_duplicate()) is not None:
        folder, named = same, f"{same.project}/{same.run}"
        owner = options.owner is not False
        options = replace(options, with_id=named, on_duplicate="new", owner=owner)
    elsewhere = find_elsewhere(options, folder)
    folder, origin = origin_of(options, elsewhere.folder)
    if folder != elsewhere.folder:  # which its job recorded before it was restarted
        elsewhere = look_elsewhere(options, folder)
    if elsewhere.opening is None:
        options = resolve_name_conflict(options, folder)
    run = Run(options, folder, origin, made_in=os.getpid())
    run.go_on_from(elsewhere)
    return run


@dataclass(frozen=True)
class RunCopy:
    """State of a run that is pickled for another process.

    Attributes:
        options: Without the token.
        folder: Where it lies.
        origin: Where it comes from.
        facts: What its first record holds beside what it was given.
        told: Whether name, tags and parameters have been recorded.
        owner: Whether its processes decide its state; None if that is not settled.
        helps: Whether its process opened it and has not gone on with it.
        keep: What it keeps of fast series, by path or pattern.
        params: The hyperparameters that its process set, by path.
    """

    options: RunOptions
    folder: RunFolder
    origin: Origin
    facts: Mapping[str, Atom]
    told: bool
    owner: bool | None
    helps: bool
    keep: Mapping[str, Keep]
    params: Mapping[str, Atom]

    def revive(self) -> Run:
        """Return the run in this process, where nothing is recorded yet."""
        run = Run(self.options, self.folder, self.origin, told=self.told, owner=self.owner)
        run._state.may_reopen = not self.helps  # noqa: SLF001 - of its own class
        run.recorder.kept.patterns.update(self.keep)
        run.tell(self.facts)
        run.recorder.parameters.take(self.params)
        return run


class Run(Container):
    """A training or evaluation that is or was recorded.

    Made by `init_run`; ``Run(...)`` with its arguments is the same. Use it as a context manager, or
    call `stop`; at the end of the process it stops by itself.

    Args:
        options: What it was given.
        folder: Where it lies.
        origin: Where it comes from.
        made_in: Pid of the process that minted its id; None for a copy.
        told: Whether name, tags and parameters have been recorded already.
        owner: Whether its processes decide its state; None if that is not settled.
    """

    container_type: ClassVar[str] = "run"

    _internal: ClassVar[frozenset[str]] = INTERNAL | {
        "agree",
        "at",
        "before_end",
        "claimed",
        "begin",
        "begin_again",
        "begin_at_once",
        "common_id",
        "content",
        "drop",
        "expect_place",
        "expect_resumed",
        "finish_at_exit",
        "follows_zero",
        "go_on",
        "go_on_from",
        "must_resume",
        "own",
        "policy",
        "positions",
        "record_atoms",
        "record_op",
        "recording",
        "rest",
        "restarted_as",
        "resume",
        "secrets",
        "series_base",
        "shared_id",
        "speaks_for_all",
        "tell",
        "together",
    }

    def __init__(
        self,
        options: RunOptions,
        folder: RunFolder,
        origin: Origin | None = None,
        *,
        made_in: int | None = None,
        told: bool = False,
        owner: bool | None = None,
    ) -> None:
        self._options = options
        self._capture: Capture | None = None
        self._inherited: JournalWriter | None = None
        self._late: LateRank | None = None
        self._hold: Hold | None = None
        self.lifecycle = Lifecycle()
        self.policy = RankPolicy(options, made_in)
        self.recorder = Recorder(
            folder,
            options.mode,
            self.lifecycle,
            self.policy,
            header=self._header,
            start=self._start,
            secrets=options.hidden(),
            keep=options.keep,
        )
        self._chronos = Chronos(self.recorder, self.lifecycle)
        self._loops = Loops(self.recorder)
        self._associations = Associations(self.recorder, options)
        self._introduction = Introduction(options, self.recorder, told=told)
        owner = options.owner if owner is None else owner
        self._state = OwnState(options, self.recorder, owner=owner)
        self.resume = resume = Resume(options, self.recorder, origin or Origin())
        self.recorded = Recorded(
            folder,
            silent=lambda: self.policy.silent,
            known=self._introduction.known,
            disabled=options.mode == "disabled",
            place=reading_place(options),
            token=options.api_token,
            through=Through(options.remotes, options.api_token, lambda: resume.is_partly_elsewhere),
            settle=self.recorder.kept.write,
        )
        self._params = Held(
            options, self.recorder, self.recorded, resume, self.lifecycle, self._introduction.tell
        )
        tags = TagCheck(self.recorded, options.remotes, options.api_token)
        self.recorder.expect_tags = tags.expect
        self._tags = tags
        self.together = Together(options, self.recorder, self.policy, self.resume)
        self._shipping = Shipping(options.remotes, options.api_token, self.recorder)
        resume.ahead = self._shipping.ahead
        self._elsewhere = Elsewhere(folder)
        fork.register(self.after_fork)

    @classmethod
    def _opened(cls, *given: Any, **named: Any) -> Run:
        return init_run(*given, **named)

    def go_on_from(self, elsewhere: Elsewhere) -> None:
        """Take note of what a remote knows of the run, of which not all is on this disk."""
        self._elsewhere = elsewhere
        self.resume.unanswered = elsewhere.unanswered
        if (opening := elsewhere.opening) is not None:
            self._state.opening = opening
            self.resume.go_on_from(opening)
            self.recorder.after_t = opening.largest_t

    def begin_at_once(self) -> None:
        """Record what is known now, as a script expects that holds no logger.

        Raises:
            ArgumentError: If ``ranks="all"`` and the ranks cannot agree on one run, or if the run
                was purged.
            RunNotFoundError: If there is no run with the id that was given, or if
                ``resume="must"`` and there is nothing to go on with.
            JournalError: If the root cannot be written to.
        """
        if self.mode == "read-only":
            self.expect_place()
            return
        if self._options.ranks == "all":
            # Whatever the mode: a rank that is disabled must not leave the others waiting.
            found = self.agree(self.together.refusal(self._expect_origin))
            assert found is self  # noqa: S101 - nothing was recorded or read yet
            self.together.connected_at_start = self.policy.agreed
        elif not self.follows_zero:
            self._expect_origin()
        self._open_at_once()

    def _open_at_once(self) -> None:
        if not self.recorder.silent:
            expect_writable(self.folder)
        self.recorder.to_write()

    def expect_place(self) -> None:
        """Refuse a run that should be there and is not, or that was purged.

        Raises:
            RunNotFoundError: If it does not exist.
            ArgumentError: If it was purged, or was given a keyed tag that a project above defines.
        """
        if not self._elsewhere.may_begin:
            expect_place(self._options, self.folder)
        self._tags.expect(self._options.tags.keyed)

    def _expect_origin(self) -> None:
        self.expect_place()
        self.resume.expect_found()

    # ---------------------------------------------------------------- facts

    def __repr__(self) -> str:
        """Return where the run is, and its state, or why this object does not know it."""
        return f"<seamark.Run {self.folder.project}/{self.folder.run} {self._state_text()}>"

    def _state_text(self) -> str:
        if self.mode == "disabled":
            return "disabled"
        if self.mode != "read-only" and not self._is_recorded_by_other_processes:
            return self.written_state
        if self.recorded.was_read:
            with quietly():  # what was read last; nothing is looked up for it
                view = self.recorded.index.view(self.folder.project, self.folder.run)
                return str(view.state)
        return self.mode if self.mode == "read-only" else "opened"

    @property
    def id(self) -> str:
        """Run id, 16 characters."""
        return self.folder.run

    @property
    def project(self) -> str:
        """Project path."""
        return self.folder.project

    @property
    def root(self) -> Path:
        """Absolute root folder."""
        return self.folder.root

    @property
    def name(self) -> str | None:
        """Name as given to this object, and with ``mode="read-only"`` as recorded.

        What it is called after others renamed it is read with ``run["sys/name"].fetch()``.
        """
        recorded = self._as_recorded("sys/name") if self.mode == "read-only" else None
        return recorded or self._options.name

    @property
    def writer(self) -> str | None:
        """Writer id of this process, or None before the first record."""
        writer = self.recorder.writer
        return writer.writer if writer else None

    @property
    def state(self) -> str:
        """State as this process last wrote it; as recorded, if only others wrote any.

        What other processes know is read with ``run["sys/state"].fetch()``.
        """
        if self.mode == "read-only" or self._is_recorded_by_other_processes:
            return self._as_recorded("sys/state") or self.written_state
        return self.written_state

    @property
    def written_state(self) -> str:
        """State as this process last wrote it; ``"created"`` if it wrote none."""
        return self._state.word

    @property
    def _is_recorded_by_other_processes(self) -> bool:
        """Whether other processes, such as ranks, recorded into this run, and this one did not."""
        wrote = self.written_state != "created" or self.recorder.positions()
        return not wrote and bool(self.folder.journals())

    def _as_recorded(self, path: str) -> str | None:
        """Return a text as it is recorded; None if there is none."""
        found = self.recorded.attributes(path)
        return found[0].value if found else None

    @property
    def errors(self) -> list[RecordedError]:
        """Errors of all ranks and attempts, the oldest first.

        Exceptions that left a ``with`` block, a fit or the script, Ctrl-C included, and what was
        given to `set_state`; each with type, message, traceback, time and rank. What processes met
        that only added to the run is not among them.
        """
        from seamark.reading.recorded_errors import recorded_errors

        return [] if self.recorded.is_empty else recorded_errors(self.recorded.view())

    def report(self, short: bool = False) -> Report:  # noqa: FBT001, FBT002 - as people call it
        """Return what the run comes to, as far as it is recorded: a dict that prints itself.

        Its keys: ``name``, ``state``, ``detail``, ``description``, ``revision``, ``version`` (of
        the code), ``start_time``, ``end_time``, ``running_time_s``, ``tags``, ``groups``,
        ``keyed_tags``, ``parameters``, ``metadata``, ``metrics`` (of a series the last value, of
        what is kept instead of points what is kept), ``chronos`` (times in seconds) and ``errors``.
        What is not recorded is None or empty. Times are text, so that ``json.dumps`` takes it.

        Args:
            short: Leave out ids (``project``, ``id``, ``custom_id``, ``parent``), whose it is and
                when and where it ran (``owner``, ``claimed_by``, ``hostname``, ``creation_time``,
                ``last_record``, ``edited``, ``trashed``, ``attempts``, ``environment``,
                ``distribution``, ``code``, ``progress``), what counts from elsewhere or was
                changed (``inherited_tags``, ``changes``, ``masked``), what is not well
                (``health``), and the tracebacks of errors.
        """
        from seamark.reading.report import report_of_run, with_plain_values

        view = self.recorded.reader()
        attributes = self.recorded.attributes(reader=view)
        return with_plain_values(report_of_run(view, attributes, project=self.project, short=short))

    @property
    def checkpoints(self) -> str:
        """``"reference"`` or ``"keep"``: what becomes of checkpoint files."""
        return self._options.checkpoints

    @property
    def ranks(self) -> str:
        """``"zero"`` or ``"all"``: which ranks record."""
        return self._options.ranks

    @property
    def params(self) -> Params:
        """Its hyperparameters, kept under ``parameters/``: a mapping to read and to change."""
        return Params(self._params)

    @property
    def tags(self) -> dict[str, Any]:
        """Keyed tags by key, as recorded up to now, with those of the projects above.

        They are kept under ``tags/``; tags without a key are those of ``sys/tags``. Of a run that
        is sent to a server they include what the projects say only there, which is asked once.
        """
        if self.recorder.silent:  # what it was given is all that it knows
            facts = self._introduction.facts
            return {
                path.partition("/")[2]: decode_atom(*atom)
                for path, atom in facts.items()
                if is_tag(path)
            }
        return super().tags | self._tags.known_there()

    @property
    def transfers(self) -> list[dict[str, Any]]:
        """When the run was moved or sent, from where, to where and by whom, the oldest first.

        Both places know it; of what ``remote=`` sends, it is when that began. ``name`` is what the
        run was called where it came to.
        """
        return transfers_of(self.recorded.attributes(TRANSFERS))

    def to_dict(self) -> dict[str, Any]:
        """Return all of the run as JSON values: what ``seamark export --format json`` writes of it.

        `seamark.from_dict` makes the run again. Bytes of files are not in it. Points lie in
        ``series``, ``texts``, ``files`` and ``histograms``, everything else in ``attributes``.
        """
        return self.recorded.document()

    def log_distribution(self, what: Any) -> dict[str, Any]:
        """Record under ``distributed/`` how a training is distributed.

        Args:
            what: A model as it is trained (DataParallel, DistributedDataParallel, FSDP, a DeepSpeed
                engine, XLA's wrappers), or the module or object that distributes: ``horovod.torch``
                and its like, ``torch_xla.core.xla_model``, ``torch.distributed``, a strategy of
                TensorFlow. It is known by its class and asked for plain facts; nothing is imported.

        Returns:
            What was recorded, by name.

        Raises:
            ArgumentError: If it is nothing of that kind.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        facts = distribution_of(what)
        atoms = {f"distributed/{name}": encode_atom(fact) for name, fact in facts.items()}
        self.recorder.record_atoms(atoms)
        return facts

    @names_arguments
    def mark_input(self, what: Any, *, name: str | None = None) -> None:
        """Record that the run reads something, under ``artifacts/inputs/<name>``.

        Args:
            what: A container (an artifact, another run, a model, ...), an existing path, whose
                files are recorded by their digests, ``"[PROJECT/]NAME:VERSION"`` of an artifact, a
                URL, or a `seamark.Reference`.
            name: What it is called in this run; None for its own name.

        Raises:
            ArgumentError: If it is nothing of that kind, if a text is a path and an artifact, or if
                this process called something else so.
            FileMissingError: If there is no such path.
            RunNotFoundError: If there is no such artifact.
            InactiveRunError: If the run was stopped, or an artifact is not saved yet.
            ReadOnlyError: If the run was opened for reading.
            OSError: If a file cannot be read.
        """
        self._shipping.send_along(self._associations.mark("input", what, name))

    @names_arguments
    def mark_output(self, what: Any, *, name: str | None = None) -> None:
        """Record that the run made something, under ``artifacts/outputs/<name>``.

        Args:
            what: As in `mark_input`, which also says what is raised.
            name: What it is called in this run; None for its own name.
        """
        self._shipping.send_along(self._associations.mark("output", what, name))

    def lineage(self) -> Lineage:
        """Return what led to this run and what came of it, over all generations.

        That is what it read and made, the runs that made what it read, those that read what it
        made, and so on, as far as they are in the place that has this run.

        Raises:
            RunNotFoundError: If nothing was recorded yet.
        """
        from seamark.run.lineage import lineage_of

        self.recorded.view()  # with what was recorded up to now
        index = self.recorded.index
        index.refresh()
        return lineage_of(index, (self.folder.project, self.folder.run))

    @property
    def monitoring_namespace(self) -> str:
        """Path of what is captured by this process: as given, or ``monitoring/<writer>``."""
        given = self._options.monitoring_namespace
        return given or "/".join(filter(None, ("monitoring", self.writer)))

    def plot(
        self,
        *paths: str,
        x: str = "step",
        smooth: float | None = None,
        log_x: bool = False,
        log_y: bool = False,
        attempt: Attempt = "latest",
        points: int = 1000,
        half_life: float | None = None,
        low: float | None = None,
        high: float | None = None,
        refresh: float | None = None,
    ) -> Any:  # a figure of plotly, which has no types
        """Return a figure of series of this run; see `Handler.plot`, also for the arguments.

        Args:
            *paths: Series, namespaces, or patterns with ``*`` and ``?``.
            x: What the x axis is.
            smooth: Width of a window in units of x.
            log_x: Logarithmic x axis.
            log_y: Logarithmic y axis.
            attempt: Which attempts are shown.
            points: At most this many representative points of each curve.
            half_life: Of a moving average instead of a window, in units of x.
            low: Only points whose x is not less.
            high: Only points whose x is not greater.
            refresh: Draw again every so many seconds while the run is running.

        Raises:
            MissingExtraError: If the extra ``plot`` is not installed.
            MissingFieldError: If there is no such series; the nearest one is named.
            ArgumentError: If an argument has a value that cannot be used.
            PathError: If ``x`` breaks the grammar of paths.
        """
        asked = Asked(x, smooth, log_x, log_y, attempt, points, half_life, low, high)
        return plot_run(self.recorded, paths, asked, refresh)

    def chrono(
        self,
        name: str,
        *,
        keep: Keep | None = None,
        on_start: Callable[[], object] | None = None,
        on_end: Callable[[], object] | None = None,
        cuda: Literal["off", "events", "synchronize"] = "off",
    ) -> Chrono:
        """Return what times a block, ``with run.chrono("batch"):``, or as a decorator a function.

        What the times come to, in seconds, is kept under ``chronos/<name>``, as by `Handler.keep`;
        inside of another block under ``chronos/<outer>/<name>``. A block inside itself, as in a
        function that calls itself, counts where it stands already. What is raised inside goes on,
        and the block counts.

        Args:
            name: Path below ``chronos/``.
            keep: What is kept; ``seamark.Statistics()`` if left out.
            on_start: Called without arguments before the clock starts.
            on_end: Called without arguments before the clock stops, such as
                ``torch.cuda.synchronize``.
            cuda: Work for a GPU goes on after the call that gave it. ``"events"`` times what the
                device does, between two CUDA events, and waits for nothing; ``"synchronize"`` waits
                for the device before the clock starts and before it stops. Without a device both
                are ``"off"``.

        Raises:
            PathError: If the name breaks the grammar of paths.
            ArgumentError: If another argument has a value that cannot be used.
        """
        return self._chronos.chrono(name, keep, on_start, on_end, cuda)

    def progress(
        self, iterable: Iterable[T], name: str, *, total: int | None = None, start: int = 0
    ) -> Progress[T]:
        """Return a loop over something, ``for epoch in run.progress(range(10), "epoch"):``.

        How far it and the loops inside of it are is recorded once a second, under
        ``sys/progress``; while the run lives, ``seamark show`` and ``seamark watch`` tell it.

        Args:
            iterable: What to iterate over.
            name: What the loop is called.
            total: How many rounds there are; None takes ``start`` and what ``len()`` says.
            start: How many were done before, by a training that this one goes on with.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
        """
        return self._loops.progress(iterable, name, total, start)

    def __getattr__(self, name: str) -> Any:
        """Name the verb that is meant by one of another program.

        Raises:
            AttributeError: As there is no such name.
        """
        from seamark.run.foreign import VERBS, also

        msg = f"{type(self).__name__!r} object has no attribute {name!r}{also(VERBS, name)}"
        raise AttributeError(msg, name=name, obj=self)

    # ---------------------------------------------------------------- for adapters

    @property
    def recording(self) -> bool:
        """Whether this process can record: not on silent ranks, not once stopped or read-only."""
        return self.recorder.recording

    @property
    def speaks_for_all(self) -> bool:
        """Whether this process records what is recorded once for all ranks: values, tags, files."""
        return self.recorder.speaks_for_all

    @property
    def content(self) -> BlobWriter:
        """Writer that takes and stores files."""
        return self.recorder.content

    def begin(self) -> bool:
        """Start the run, if that has not happened yet; return whether this process records.

        For files, whose storing does not start it.
        """
        return self.recording and self.recorder.to_write() is not None

    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of this process's journals, as they are now."""
        return self.recorder.positions()

    def record_op(self, op: Mapping[str, Any]) -> bool:
        """Append one op; see `Recorder.record_op`."""
        return self.recorder.record_op(op)

    def record_atoms(self, atoms: Mapping[str, Atom]) -> bool:
        """Append values that are encoded already; see `Recorder.record_atoms`."""
        return self.recorder.record_atoms(atoms)

    @property
    def secrets(self) -> Secrets:
        """Secrets that are masked in the records of this run."""
        return self.recorder.secrets

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count what could not be recorded, and warn once about it. Never raises.

        Args:
            reason: Short name under which the losses are counted.
            count: How many values or records.
            warn: What a person should read, once for each reason.
        """
        self.recorder.drop(reason, count, warn)

    def before_end(self, call: Callable[[], None]) -> None:
        """Register a call before this process ends the run or rests it, once.

        For records that are put together late; what it raises is logged and goes no further.
        """
        self.lifecycle.before_end(call)

    def tell(self, atoms: Mapping[str, Atom]) -> None:
        """Record facts with the first record, or now if there was one. Never raises.

        Args:
            atoms: Encoded values by path.
        """
        self._introduction.tell(atoms)

    def series_base(self, base: str) -> str:
        """Return where in a namespace the series of this process belong.

        A rank above 0 that records too has ``ranks/<rank>`` there for its own; in the run as a
        whole, whose namespace is empty, the recorder itself sees to it.

        Args:
            base: Path of the namespace.
        """
        rank = self.policy.apart if base else 0
        return join_path(base, f"ranks/{rank}") if rank else base

    # ---------------------------------------------------------------- starting

    def _start(self) -> None:
        if self._inherited is not None and self._continue_after_fork(self._inherited):
            return
        self.resume.expect_found()
        existed, made = self._existing_state()
        rank, waits = self.policy.apart, not self._options.start
        self._state.begin_here()
        if self._state.owner is None and (rank or self.resume.origin.begun or not made):
            self._state.owner = True
        writer = self._open_journal(rank, waits=waits)
        if not rank:
            self._watch_rank()
        if self._state.owner and not (waits and (existed or rank)):
            self._state.set("created" if waits else "running")
        if not self._introduction.told and not rank:
            self._introduce(writer, existed=existed)
        if existed:
            self._take_over()
        if not waits:
            self._begun()

    def _open_journal(self, rank: int, *, waits: bool) -> JournalWriter:
        """Begin to record once it is known what an earlier process of this rank recorded."""
        self.lifecycle.phase = WAITING if waits else RECORDING
        if waits:
            self.recorder.before_point = self._begin_to_run
        if waits or self._state.owner is None:
            self.recorder.watch_series = self._before_points
        knows = self._elsewhere.opening is not None or rank_has_recorded(self.folder, rank)
        writer = self.recorder.open(self._state.learn if knows else None)
        if waits:
            self.recorder.rest_soon()
            at_exit.finish_at_exit(self, self._key)
        return writer

    def _watch_rank(self) -> None:
        """Look at heartbeats and at the end whether this process is rank 0, as it seems to be."""
        if self._options.owner is not False:
            self._late = LateRank(
                self.id, self.ranks, lead=self._lead, leave=self._stop_as_other_rank, stop=self.stop
            )
            self.lifecycle.on(heartbeat=self._late.beat, stop=self._late.look)

    def _begun(self) -> None:
        at_exit.finish_at_exit(self, self._key)
        if self._state.owner is not False:
            self._watch()
        self._introduction.told = True

    def _begin_to_run(self) -> None:
        """Go on from waiting as a run does that is not made with ``start=False``."""
        if self.lifecycle.phase == WAITING and self._state.is_here:
            self._record_again()
            if self._state.owner:
                self._state.set("running")
            self._begun()

    def start(self) -> None:
        """Start a run that was recorded with ``start=False``.

        A process that opened such a run owns its state from then on. Where it was running once, and
        on ranks that record nothing, nothing happens; a run that has ended is set to ``"running"``
        by `set_state`.

        Raises:
            ArgumentError: If the run was opened with ``owner=False``, and has not begun.
            InactiveRunError: If it was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if self.recorder.to_write() is None or not self._state.is_here:
            return
        self.recorder.begin_points()
        if not self._state.owner and self.recorded.view().state == "created":
            expect_owned("start", self.folder.words, owned=self._state.owner is None)
            self.own()

    def _introduce(self, writer: JournalWriter, *, existed: bool) -> None:
        """Record what the run was given, and which of the runs it is that were given the same."""
        revision: dict[str, Any] = {}
        if not existed:
            version = self._introduction.find_version()
            revision = Revisions(self._options, self.folder).take(version)
        self._introduction.record(writer, owner=bool(self._state.owner), revision=revision)

    def _existing_state(self) -> tuple[bool, bool]:
        """Return whether the run exists, here or elsewhere, and whether somebody else made it."""
        made = has_other_owner(self.folder, self._lineage)
        if (opening := self._elsewhere.opening) is not None:
            return True, made or opening.has_other_owner(self._lineage)
        return bool(self.folder.journals()), made

    @property
    def _lineage(self) -> str:
        return self.resume.origin.lineage

    def _watch(self) -> None:
        """Capture what this process is, up to its end; of an owner, what the run is."""
        capture = self._captures()
        if self._state.owner and not capture.owner:
            capture.owner = True
            if not self.recorder.rank:
                # First: what a run says of itself is no output of the training.
                self._introduction.greet(self.resume.origin)
                if (sources := self._introduction.keep_sources()) is not None:
                    self.before_end(sources.finish)
        self.lifecycle.call("start")

    def _captures(self) -> Capture:
        """Return what captures for this run in this process; it may still have to be started."""
        if self._capture is None:
            where = Captured(self.recorder, self._note_state)
            self._capture = Capture(where, self._switches(), owner=False)
            self.lifecycle.on(start=self._capture.start, rest=self._capture.stop)
            self.lifecycle.on(stop=self._capture.stop)
        return self._capture

    def _switches(self) -> Switches:
        options, rank = self._options, self.recorder.rank
        captures = options.captures
        if rank:  # as on rank 0, which tells it
            captures.update(git=False, script=False, packages=False)
        return Switches(
            **captures,
            version=options.code_version is None,
            version_at_start=self._introduction.executed_code,
            script_file=options.source_files is None,
            dependencies=None if rank else options.dependencies,
            git_ref=options.git_ref,
            limit=options.capture_limit,
            monitoring_namespace=None if rank else options.monitoring_namespace,
            fail_on_exception=options.fail_on_exception is not False,
            secrets=self.recorder.secrets,
        )

    def _header(self) -> dict[str, Any]:
        from seamark import __version__

        self._shipping.begin()  # here, as a forked child opens journals of its own
        state, here = self._state, self._state.is_here  # a forked helper is not an owner
        rank, apart = current_rank(), self.recorder.rank
        owner = bool(state.owner) and here and not apart
        return {
            "seamark": __version__,
            **self.resume.header(owner=owner, takes_part=state.owner is not False and here),
            "owner": owner,
            **process_facts(),
            "cgroup": memory_groups(),
            "rank": apart or rank.rank,
            "ranks": self.ranks,
            "world_size": rank.world_size,
            "launcher": rank.launcher,
            "job": job_key(),
        }

    # ---------------------------------------------------------------- opening a run that was there

    def _before_points(self, paths: Iterable[str]) -> None:
        """Own a run that is reopened; else warn of points of the owner's series."""
        self.recorder.begin_points()
        if self._state.is_reopened:
            self.own()
        if self._state.owner is not None or self._state.warn_of_series(paths):
            self.recorder.unwatch_series()

    def own(self) -> None:
        """Note that this process trains the run, so that this process sets the run's state.

        Does nothing where that is decided already: see ``owner`` of `init_run`. Never raises.
        """
        if self._state.owner is not None:
            return
        self._state.owner = True
        if (writer := self.recorder.writer) is None:
            return

        def lost(error: Exception) -> None:
            self.drop("state", warn=f"this process's ownership could not be recorded: {error}")

        with quietly(lost):
            writer.rotate()  # the header of the next journal says whose state it tells
            self._state.set("running")
            self.recorder.assign_quietly(self._introduction.of_owner())
            if self.lifecycle.phase in (RESTING, WAITING):
                self._record_again()
            self._watch()
            self._take_over()

    def _take_over(self) -> None:
        """Go on with what earlier processes left; their files are stored on a thread."""
        if (finish := self._state.take_over()) is not None and self.folder.staging_dir.is_dir():
            thread = threading.Thread(target=finish, name="seamark-staged", daemon=True)
            thread.start()
            self.before_end(lambda: thread.join(_STAGED_S))

    # ---------------------------------------------------------------- ranks

    @property
    def common_id(self) -> bool:
        """Whether the run's id was given, or came here from another process; see `RankPolicy`."""
        return self.policy.common_id

    @property
    def shared_id(self) -> bool:
        """Whether other processes know the run's id: by `common_id`, or since the ranks agreed."""
        return self.policy.shared_id

    @property
    def follows_zero(self) -> bool:
        """Whether rank 0 finds out what this rank goes on with, from its own disk."""
        return self.together.follows_zero

    def agree(self, refusal: SeamarkError | None = None) -> Run:
        """Return the run that all ranks record into: that of rank 0. Every rank has to call this.

        For loggers, which make their id before the ranks can communicate; once a process group or
        Horovod is initialised. Without either, or if the id is known to the other ranks anyway, it
        is this run.

        Args:
            refusal: Why rank 0 does not begin, which is raised on all ranks.

        Raises:
            ArgumentError: If ``ranks="all"`` and other ranks cannot learn the id.
            SeamarkError: What rank 0 was given as ``refusal``.
        """
        agreed = self.together.receive_decision(refusal)
        if agreed is None:
            return self
        found = self
        if (agreed.run, agreed.project) != (self.folder.run, self.folder.project):
            if self.recorder.writer is None and not self.recorded.was_read:
                # Whoever holds it holds the right one.
                self._move_to(RunFolder(self.root, agreed.project, agreed.run))
            else:
                found = self.at(agreed.run, agreed.project)
        found.together.accept(agreed.attempt)
        return found

    def _move_to(self, folder: RunFolder) -> None:
        """Move a run that has no records yet to another folder."""
        self.recorder.folder = self.recorded.folder = folder

    def _stop_as_other_rank(self) -> None:
        """Record nothing more: this process turned out to be a rank that does not record."""
        origin = self.resume.origin
        if self._options.names_a_run or self.policy.common_id or origin.continues:
            self._disown()  # rank 0 records it, too, and tells its state
        elif self.written_state == "running":
            self._note_state("interrupted")
        self.policy.withdraw()

    def _lead(self) -> None:
        """Own a run that this process found running: rank 0 is told late that it is that."""
        if self._state.was_running:
            self.own()

    def stragglers(self) -> list[RankTiming]:
        """Return how each rank is doing and how long its steps take, the slowest rank first.

        For runs that every rank recorded (``ranks="all"``), together with
        ``profiling/step_time_s`` and, better, ``profiling/own_time_s``.

        Raises:
            MissingFieldError: If only one rank recorded, or none the times of its steps.
        """
        from seamark.errors import MissingFieldError
        from seamark.reading.stragglers import rank_timings

        if self.recorded.is_empty:
            msg = f"{self.folder.words}: nothing is recorded yet"
            raise MissingFieldError(msg)
        return rank_timings(self.recorded.view())

    # ---------------------------------------------------------------- checkpoints and resuming

    @property
    def must_resume(self) -> bool:
        """Whether this run has to exist already: ``resume="must"``."""
        return self._options.must_resume

    @property
    def restarted_as(self) -> int | None:
        """The attempt that a restart of the job began and that has recorded nothing yet, or None.

        0-based.
        """
        return self.resume.restarted_as

    def expect_resumed(self) -> None:
        """Refuse to begin a new run with ``resume="must"``.

        Raises:
            RunNotFoundError: If this would be one.
        """
        self.resume.expect_found()

    def checkpoint_state(self, *, marked: bool | None = None) -> dict[str, Any]:
        """Return what a checkpoint stores of this run: see `resumed`.

        Strings, ints, dicts and None only: the run's id, its project, and how long every journal is
        now. A rank that sees no journal names no positions; then nothing is hidden by loading the
        checkpoint.

        With ``ranks="all"`` every rank has to call this at the same place of the training, whoever
        saves it: what it has recorded by then belongs to the checkpoint. Of a rank that never does,
        the checkpoint holds what it has recorded when the others save.

        Args:
            marked: Whether `mark_checkpoint` will be called when the last record was made that
                belongs to what the checkpoint holds. A framework may save in the middle of a step,
                and record the metrics of that step afterwards. None: that was made already.
        """
        here = marked is None and self.ranks == "all"
        state = self.resume.checkpoint_state(marked=bool(marked) or here)
        if here:
            self.mark_checkpoint()
        return state

    def mark_checkpoint(self) -> None:
        """Note that what is recorded from now on came after the last checkpoint. Never raises."""
        self.resume.mark_checkpoint()

    def at(self, run: str, project: str | None = None, *, owner: bool = True) -> Run:
        """Return a run with the options of this one and another id; nothing is on disk yet.

        Args:
            run: Run id.
            project: Project path, this run's if left out.
            owner: False for a rank that adds something to the run of rank 0, whose state is not its
                own: such a run is recorded whatever the rank, and at the paths that it is given.
        """
        options = self._options if owner else replace(self._options, owner=False, ranks="zero")
        found = Run(
            options,
            RunFolder(self.root, project or self.project, run),
            replace(self.resume.origin, begun=None, continues=True),
            made_in=self.policy.made_in,
            told=not owner,
        )
        found.tell(self._introduction.facts)
        found.recorder.kept.patterns.update(self.recorder.kept.travelling())
        found.recorder.parameters.take(self.recorder.parameters.atoms)
        return found

    def resumed(
        self, state: Mapping[str, Any], *, stay: bool = False, training: bool = True
    ) -> Run:
        """Return the run that a checkpoint was saved in, about to begin a new attempt.

        Readers hide by default what older attempts recorded after the checkpoint. A run that has
        recorded something of its own, that was opened by an id or with ``resume="never"``, or a
        checkpoint whose run is not below this root, leave everything as it is; the run then names
        where its weights come from under ``origin/run_id`` and ``origin/project``.

        Where `init_run` connected the ranks (``ranks="all"`` in a process group), every rank has to
        call this: rank 0 decides for all.

        Args:
            state: What `checkpoint_state` returned then.
            stay: Do not switch to another run.
            training: False where the checkpoint is only evaluated: no attempt begins, and only
                ``resume="must"`` switches to its run.

        Raises:
            ArgumentError: If it is not such a state.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        saved = Saved.of(state)
        if self.together.connected_at_start and connected() and not stay:
            return self._resume_on_all_ranks(saved, training=training)
        return self._resumed(saved, stay=stay, training=training)

    def _resume_on_all_ranks(self, saved: Saved, *, training: bool) -> Run:
        """Resume the run that rank 0 decides on, on all ranks."""
        if not current_rank().rank:
            try:
                found = self._resumed(saved, stay=False, training=training)
            except SeamarkError as error:
                self.agree(error)
                raise
            return found.agree()
        before = self.resume.origin.begun
        self.resume.mark_checkpoint()
        found = self.agree()
        if found is not self:
            found.together.connected_at_start = True
            self._finish("stop", _WITHDRAWN_S, quiet=True)
            found._open_at_once()  # noqa: SLF001 - of its own class
        elif found.resume.origin.begun != before:
            self.recorder.begin_attempt()
        return found

    def _resumed(self, saved: Saved, *, stay: bool, training: bool) -> Run:
        options, here = self._options, self.folder
        if self.mode in ("disabled", "read-only"):
            return self
        never, must = options.resume == "never", options.resume == "must"
        if (saved.run, saved.project) == (here.run, here.project):
            if training and not never:
                self._begin_attempt(saved)
            return self
        place = RunFolder(here.root, saved.project, saved.run)
        elsewhere, exists = Elsewhere(place), place.journal_dir.is_dir()
        if not (exists and is_whole(place)) and (must or (training and not never)):
            elsewhere = look_elsewhere(options, place)
            exists = exists or elsewhere.opening is not None
        if must and not exists:
            raise _not_found(saved, here)
        if exists and (must or (training and not never)):
            if not (stay or options.names_a_run) and self._is_untouched:
                return self._go_over(saved, elsewhere, training=training)
            self._warn("the checkpoint is of run %r; continuing with run %r", saved.run, here.run)
        elif training and not never:
            self._warn("%s; recording a new run", saved.not_found(here))
        if training or self.recorder.writer is None:
            self.tell(
                {
                    "origin/run_id": encode_atom(saved.run),
                    "origin/project": encode_atom(saved.project),
                }
            )
        return self

    def begin_again(self) -> None:
        """Count what is recorded from now on as a new attempt; for adapters. Never raises.

        Nothing is hidden. Where ranks share the run they have to agree on attempts, and nothing
        happens here.
        """

        def lost(error: Exception) -> None:
            self.drop("state", warn=f"that a training began again was not recorded: {error}")

        alone = self._options.ranks != "all" and self._options.resume != "never"
        if alone and not self.recorder.silent and self.recorder.writer is not None:
            with quietly(lost):
                self.resume.begin_again()

    def _begin_attempt(self, saved: Saved) -> None:
        if self.resume.begin_attempt(saved) is not None:
            self.own()

    def _go_over(self, saved: Saved, elsewhere: Elsewhere, *, training: bool) -> Run:
        """Return the run of a checkpoint, which is recorded instead of this one."""
        found = self.at(saved.run, saved.project)
        found.go_on_from(elsewhere)
        if training:
            found._begin_attempt(saved)  # noqa: SLF001 - of its own class
        if self.recorder.writer is not None:  # it began at once, and holds nothing but that
            log.info("seamark: run %s is not recorded: run %s goes on", self.id, saved.run)
            self._withdraw()
            found.together.connected_at_start = self.together.connected_at_start
            found._open_at_once()  # noqa: SLF001
        return found

    @property
    def _is_untouched(self) -> bool:
        """Whether nothing is recorded but what a run records of itself when it begins."""
        writer = self.recorder.writer
        return writer is None or self._introduction.covers(writer.families)

    def _withdraw(self) -> None:
        """Take back what has begun and does not come to be, and stop.

        A run of this process alone goes into the trash. From one that others record too only what
        this process wrote is removed.
        """

        def lost(error: Exception) -> None:
            log.debug("seamark: run %s could not be withdrawn: %r", self.id, error)

        with quietly(lost):
            shared = self.policy.common_id or self._options.names_a_run
            if not shared:
                self.recorder.assign_quietly({"sys/trashed": True})
            writer = self.recorder.writer
            own = writer.writers if shared and writer is not None else ()
            self._finish("stop", _WITHDRAWN_S, quiet=True)  # else it would be written again
            for journal in self.folder.journals():
                if journal.writer in own:
                    journal.path.unlink(missing_ok=True)

    def _warn(self, message: str, *args: object) -> None:
        if not self.recorder.silent:
            log.warning(f"seamark: {message}", *args)  # noqa: G004 - the arguments are not in it

    # ---------------------------------------------------------------- state

    def set_state(
        self, state: str, *, detail: str | None = None, error: BaseException | None = None
    ) -> None:
        """Say how the run is doing, where it does not turn out by itself.

        A run is completed when it is stopped, and failed when an exception leaves it. What is said
        here stays until something else is said: `stop` completes no run that is not running.

        Args:
            state: ``"running"``, ``"interrupted"``, ``"failed"``, ``"suspended"`` (it will be gone
                on with) or ``"completed"``.
            detail: A word of your own beside it, such as ``"broken"``, for ``sys/state_detail``.
            error: What led to it; it is listed among `errors`, secrets masked.

        Raises:
            ArgumentError: If there is no such state, or none that can be set; or if the run was
                opened to add to it, and its state is not this process's to tell: see ``owner`` of
                `init_run`.
            InactiveRunError: If it was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        check_state(state, detail, error)
        if self.recorder.to_write() is None:
            return
        owned = bool(self._state.owner) and self._state.is_here
        expect_owned("set_state", self.folder.words, owned=owned)
        if state == "running":
            self.recorder.begin_points()
            self._revive()
        if error is not None:
            self._captures().note_exception(error, asked=True)
        self.recorder.kept.write()
        self._state.set(state, detail=detail, error=error)

    def go_on(self) -> None:
        """Set a run that has ended or not begun to running; for adapters. Never raises.

        Does nothing where the state is not this process's to tell.
        """
        if self.lifecycle.phase == WAITING:
            self.recorder.begin_points()
        else:
            self._note_state("running")

    def _note_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the run's state; never raises, and does nothing where this process owns no state.

        Args:
            state: See `set_state`.
            error: What ended the run; type and message are kept, secrets masked.
            signal: Name of the signal that ended it.
        """

        def lost(trouble: Exception) -> None:
            self.drop("state", 1, f"the state {state!r} could not be recorded: {trouble!r:.200}")

        if state != "running":
            self.recorder.kept.write()
        with quietly(lost):
            noted = self._state.note(state, error=error, signal=signal)
            if noted and state == "running":
                self._revive()

    def _revive(self) -> None:
        """Leave a rest, where the run is running again."""
        if self.lifecycle.phase == RESTING:
            self._record_again()
            self._watch()

    def _record_again(self) -> None:
        """Record again after a rest."""
        at_exit.finish_at_exit(self, self._key)
        self.lifecycle.phase = RECORDING
        self.recorder.go_on()

    # ---------------------------------------------------------------- the end

    def rest(self, state: str = "completed", *, error: BaseException | None = None) -> None:
        """Note how a training has ended, and hold no descriptor and no thread from then on.

        What is recorded later is recorded as ever, in another journal. What becomes of the process
        says nothing about the run any more, until it is ``"running"`` again. Never raises.

        Args:
            state: See `set_state`.
            error: What ended it, with its traceback.
        """
        if self.lifecycle.phase == RECORDING and self._state.is_here:
            if error is not None and self._capture is not None:
                self._capture.note_exception(error)
            self.lifecycle.call("rest")
            self._note_state(state, error=error)
            self.lifecycle.phase = RESTING
            state, rank = self.written_state, self.recorder.rank
            if self._state.owner and not rank:
                at_exit.print_at_exit(self, self._key, lambda: self._print_end(state, 0, []))
            else:
                at_exit.settle(self, self._key)
            self.recorder.rest()
            self._shipping.rest()
            self.recorded.close()
        else:
            self._note_state(state, error=error)

    def claimed(self, hold: Hold) -> None:
        """Take note that this process has claimed the run; see `seamark.Project.claim`."""
        self._hold, hold.on_loss = hold, self._disown
        self.recorder.assign_quietly({CLAIMED_BY: claimed_by(hold.claim.facts)})
        self.lifecycle.on(heartbeat=hold.look)

    def release(self) -> bool:
        """Give back a run that `seamark.Project.claim` returned, so that others may claim it.

        Stopping the run does the same. What is recorded from then on is recorded as ever.

        Returns:
            Whether it was still this process's: somebody else may have it, if nothing was heard of
            this process for so long that it counted as crashed.
        """
        if (hold := self._end_claim()) is None:
            return False
        return hold.release(self.recorder.positions())

    def _end_claim(self) -> Hold | None:
        """Record that this process has the run no more; return its claim if it had it."""
        hold = self._hold
        if hold is None or not hold.is_mine or hold.is_lost():
            return None
        with quietly(lambda error: self.drop("claim", warn=f"a claim is shown as held: {error}")):
            if self.recorder.recording:
                self.recorder.record_op({"op": "delete", "paths": [CLAIMED_BY]})
        return hold

    def _disown(self) -> None:
        """Leave the run's state to whoever has taken the run over."""
        self._state.owner = False
        if (writer := self.recorder.writer) is not None:
            with quietly():
                writer.rotate()  # the header of the next journal says so

    def stop(self, *, seconds: float | None = None) -> None:
        """Finish: store taken files, mark the run completed, force everything to disk.

        May be called twice.

        Args:
            seconds: How long to wait for files and the disk; None waits as long as files are being
                stored.
        """
        self._finish("stop", seconds)

    def finish_at_exit(self, error: BaseException | None) -> None:
        """Finish because the process ends; the error is what ended it, if anything did."""
        self._note_error(error)
        self._finish("exit", 60.0)

    def _finish(
        self, reason: str, seconds: float | None, *, quiet: bool = False, failed: bool = False
    ) -> None:
        writer = self.recorder.writer
        if writer is not None and not self._state.is_here:
            self.recorder.kept.write()
            if writer.writer is not None:  # a forked helper closes what it wrote itself
                writer.close(reason)
                self._shipping.finish(seconds, in_haste=True)
            return
        if self.lifecycle.phase == STOPPED:
            return
        if writer is not None:
            if not quiet:
                self.recorder.kept.write()  # with which a run that waited begins, so that it ends
            writer.retry_now()
        hold = self._end_claim()
        self.lifecycle.call("stop")
        self.lifecycle.phase = STOPPED
        at_exit.settle(self, self._key)
        timeout_s = CLOSE_TIMEOUT_S if seconds is None else min(seconds, CLOSE_TIMEOUT_S)
        self.recorder.store_files(seconds)
        if self.written_state == "running":
            self._note_state("completed")
        lost = self.recorder.close(reason, timeout_s)
        self.recorded.close()
        in_haste = self.written_state in ("interrupted", "suspended")
        sent = self._shipping.finish(
            0 if quiet else seconds,
            in_haste=in_haste,
            quiet=quiet,
            later=failed or reason == "exit",
        )
        if hold is not None:
            hold.release(self.recorder.positions())
        if writer is not None and self._state.owner and not self.recorder.rank and not quiet:
            self._print_end(self.written_state, lost, sent)

    def _print_end(self, state: str, lost: int, sent: list[str]) -> None:
        print_end(self.folder, self._introduction.called(self.resume.origin), state, lost, sent)
        if self._late is not None:
            self._late.tell_of_tasks()

    def __enter__(self) -> Run:  # noqa: PYI034 - typing.Self is of Python 3.11
        """Return itself, running."""
        if not self._options.start and self.recording:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop.

        An exception on its way out fails the run, Ctrl-C interrupts it. Nothing is swallowed.
        """
        self._note_error(error)
        self._finish("stop", None, failed=error is not None)

    def _note_error(self, error: BaseException | None) -> None:
        if self._capture is not None:  # else nothing was recorded, or the run is only added to
            self._capture.saw_exception(error)

    @property
    def _key(self) -> str:
        return os.fspath(self.folder.path)

    # ---------------------------------------------------------------- other processes

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again: it may be another rank."""
        self.recorder.after_fork()
        self._chronos.after_fork()
        if self._options.ranks == "all" and self.recorder.writer is not None:
            self._inherited = self.recorder.let_go()
            self.recorder.ask_again()

    def _continue_after_fork(self, inherited: JournalWriter) -> bool:
        """Record in a forked child as a helper of its parent; False if it is another rank."""
        self._inherited = None
        if self.recorder.rank == current_rank().rank:
            self.recorder.use(inherited)
            return True
        self._state.word, self._introduction.told = "created", True
        return False

    def __reduce__(self) -> Any:
        """Travel as one value.

        The copy opens a journal of its own when it records something.
        """
        facts = self.recorder.secrets.atoms(self._introduction.facts)
        told = self._introduction.told
        told = told or self.recorder.writer is not None
        owner = self._state.owner
        keep = self.recorder.kept.travelling()
        params = self.recorder.parameters.atoms
        if get_spawning_popen() is None:  # else it goes to a process of this training, by a pipe
            params = self.recorder.secrets.atoms(params)
        place, origin = self.folder, self.resume.origin
        waits = self.lifecycle.phase == WAITING
        options = self._options if waits else replace(self._options, start=True)
        helps = owner is None and self.recorder.writer is not None
        copy = RunCopy(options, place, origin, facts, told, owner, helps, keep, params)
        return RunCopy.revive, (copy,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        """Return the same run: copying a script's objects must not start another."""
        return self


def _not_found(saved: Saved, here: RunFolder) -> Exception:
    from seamark.errors import RunNotFoundError

    return RunNotFoundError(saved.not_found(here))

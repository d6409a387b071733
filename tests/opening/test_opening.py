"""Decisions at the opening of a run, one row for each sentence that the documentation promises.

No disk, launcher or network takes part: a `World` of plain values answers. A row says what a person
gave, what the world answers beside "nothing is there", and what was decided.
"""

# ruff: noqa: E501 - a row of a table is one line

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from seamark.errors import (
    ArgumentError,
    RunExistsError,
    RunNotFoundError,
    SeamarkError,
)
from seamark.journal.folder import RunFolder, hashed_run_id
from seamark.opening.opening import (
    Opening,
    Origin,
    Presence,
    RemoteAnswer,
    Saved,
    resolve,
    resolve_checkpoint,
)
from seamark.opening.restarts import Attempt, JobRun, Restart
from seamark.options.settings import Settings
from seamark.remote.protocol import RemoteRun

ROOT = Path("/runs")
ID = "k8f3cndj37t6kb4g"
OTHER = "gdk8fcndm1gjn4pp"
JOB = JobRun("argv", "MainProcess", 0)
URL = "https://seamark.example"
SENT = {"remote": URL, "api_token": "t0ken"}
HERE = Presence(exists=True)
PURGED = Presence(is_purged=True)
LINKED = Presence(exists=True, link=Path("/runs/p/link"))
KNOWN = RemoteRun(7, {}, {}, {}, frozenset(), failed=False, resumable=False)


def folder(run, project="p"):
    return RunFolder(ROOT, project, run)


def by_custom_id(name):
    return hashed_run_id("p", name)


def table(names, rows):
    return pytest.mark.parametrize(names, [pytest.param(*row[1:], id=row[0]) for row in rows])


@dataclass
class Answers:
    """A world of plain values; it notes what it was asked."""

    root: Path = ROOT
    rank: int = 0
    restarts: int = 0
    found: RunFolder | SeamarkError = field(default_factory=lambda: RunNotFoundError("no such run"))
    here: dict[str, Presence] = field(default_factory=dict)
    remote: RemoteAnswer | SeamarkError = field(default_factory=RemoteAnswer)
    job: Restart = (None, None)
    duplicate: str | None = None
    name: tuple[str | None, tuple[str, ...]] | SeamarkError = (None, (URL,))
    asked: list[str] = field(default_factory=list)

    def job_run(self) -> JobRun:
        return JOB

    def find(self) -> RunFolder:
        self.asked.append("find")
        return returned(self.found)

    def presence(self, folder: RunFolder) -> Presence:
        return self.here.get(folder.run, Presence())

    def ask_remotes(self, place: RunFolder | None) -> RemoteAnswer:
        self.asked.append("remotes by name" if place is None else f"remotes for {place.run}")
        return returned(self.remote)

    def restarted(self, folder: RunFolder, job_run: JobRun | None) -> Restart:
        self.asked.append("job")
        return (folder, self.job[1]) if job_run is None else self.job

    def find_duplicate(self, folder: RunFolder) -> str | None:
        self.asked.append("duplicate")
        return self.duplicate

    def claim_name(self, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
        self.asked.append("name")
        return returned(self.name)


def returned(answer):
    if isinstance(answer, Exception):
        raise answer
    return answer


NEW = "a new id"
FOUND = {"found": folder(ID), "here": {ID: HERE}}
AWAY = {"remote": RemoteAnswer(failure="away")}
THERE = {"remote": RemoteAnswer(folder(ID), KNOWN)}
LEFT = {"job": (folder(OTHER), Attempt(1, None))}
NOWHERE = (RunNotFoundError, "no such run")
PARAMS = {"params": {"lr": 1}}
Row = tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]

# fmt: off
ROWS: tuple[Row, ...] = (
    # What is recorded where
    ("a run without a name gets an id of its own, and knows which run of its job it is",
        {}, {}, {"run": NEW, "project": "p", "refusal": None, "asked": [], "job_run": JOB, "continues": False}),
    ("with_id finds a run by its id", {"with_id": ID}, FOUND, {"run": ID, "refusal": None}),
    ("'latest' is nobody's id", {"with_id": "latest"}, {}, {"run": hashed_run_id("p", "with_id\0latest"), "refusal": NOWHERE}),
    ("a name that may mean several runs is an error", {"with_id": "otter"}, {"found": ArgumentError("any of 2")}, {"refusal": (ArgumentError, "any of 2")}),
    ("a run whose folder is a link is not followed", {"with_id": ID}, {"found": folder(ID), "here": {ID: LINKED}}, {"refusal": (RunNotFoundError, "is a link, not followed")}),
    ("a run that went away meanwhile is an error", {"with_id": ID}, {"found": folder(ID)}, {"refusal": (RunNotFoundError, "seamark ls lists the runs")}),
    ("a purged run cannot be recorded again", {"custom_run_id": "nightly"}, {"here": {by_custom_id("nightly"): PURGED}}, {"refusal": (ArgumentError, "was purged")}),
    # mode
    ("mode='read-only' reads a run that exists", {"with_id": ID, "mode": "read-only"}, FOUND, {"run": ID, "refusal": None, "job_run": None}),
    ("mode='read-only' with a custom_run_id asks the place that is read",
        {"custom_run_id": "x", "mode": "read-only"}, {"found": RunNotFoundError("not there")}, {"asked": ["find"], "refusal": (RunNotFoundError, "not there")}),
    ("a restarted job that only reads begins no attempt", {"with_id": ID, "mode": "read-only"}, {**FOUND, "restarts": 1, "job": (None, Attempt(1, None))}, {"begun": None}),
    ("mode='disabled' looks for nothing", {"mode": "disabled", "on_duplicate": "error", **PARAMS}, {"duplicate": OTHER, "restarts": 1}, {"run": NEW, "asked": [], "job_run": None}),
    ("mode='disabled' with resume='must' does not ask for the run", {"mode": "disabled", "resume": "must", "custom_run_id": "x"}, {}, {"refusal": None}),
    ("mode='offline' sends nothing and asks no remote",
        {"mode": "offline", "custom_run_id": "x", **SENT}, {"remote": RemoteAnswer(folder("x"), KNOWN)}, {"remote": None, "asked": []}),
    # resume
    ("resume='must' of a named run that is nowhere is an error", {"resume": "must", "custom_run_id": "x"}, {}, {"refusal": (RunNotFoundError, "no run")}),
    ("resume='must' waits for a checkpoint where no run is named", {"resume": "must"}, {}, {"refusal": None}),
    ("resume='never' asks no remote for what went before",
        {"resume": "never", "custom_run_id": "x", **SENT}, {"remote": RemoteAnswer(folder("x"), KNOWN)}, {"remote": None, "asked": []}),
    # a launcher's restart
    ("a restarted job goes on with the run that it recorded, in a new attempt",
        {}, {"restarts": 1, **LEFT}, {"run": OTHER, "continues": True, "begun": Attempt(1, None), "job_run": JOB}),
    ("a restarted job that recorded nothing begins a run", {}, {"restarts": 1}, {"run": NEW, "continues": False, "begun": None, "job_run": JOB}),
    ("a run that is named begins an attempt after a restart",
        {"custom_run_id": "x"}, {"restarts": 2, "job": (None, Attempt(2, None))}, {"run": by_custom_id("x"), "begun": Attempt(2, None), "continues": False}),
    ("resume='never' begins a run also after a restart", {"resume": "never"}, {"restarts": 1, **LEFT}, {"run": NEW, "asked": []}),
    ("owner=False takes part in the run and begins no attempt", {"owner": False}, {"restarts": 1, **LEFT}, {"run": NEW, "asked": []}),
    ("a job that was not restarted does not look for a run", {}, LEFT, {"run": NEW, "asked": []}),
    ("a run that was opened by with_id begins an attempt after a restart, too",
        {"with_id": ID}, {**FOUND, "restarts": 1, "job": (None, Attempt(1, None))}, {"run": ID, "begun": Attempt(1, None), "job_run": None}),
    # runs at a remote
    ("a run that is only at its server is resumed from there",
        {"with_id": ID, **SENT}, THERE, {"run": ID, "remote": KNOWN, "refusal": None, "asked": ["find", f"remotes for {ID}"]}),
    ("a run at a server is found by its name",
        {"with_id": "quick-otter", **SENT}, {"remote": RemoteAnswer(folder(ID, "q"), KNOWN)}, {"run": ID, "project": "q", "asked": ["find", "remotes by name"]}),
    ("a whole id names the project, too", {"with_id": f"q/{ID}", **SENT}, AWAY, {"run": ID, "project": "q", "is_unanswered": True, "warns": "as if it were new"}),
    ("a name that may mean several runs at a server is an error", {"with_id": "otter", **SENT}, {"remote": ArgumentError("any of 2")}, {"raises": (ArgumentError, "any of 2")}),
    ("a project that breaks the grammar is asked for by its name", {"with_id": f"../{ID}", **SENT}, {}, {"asked": ["find", "remotes by name"], "refusal": NOWHERE}),
    ("a run that no remote has is an error", {"with_id": ID, **SENT}, {}, {"remote": None, "refusal": NOWHERE}),
    ("a server that is away: a custom_run_id is recorded as if it were new",
        {"custom_run_id": "x", **SENT}, AWAY, {"run": by_custom_id("x"), "is_unanswered": True, "warns": "as if it were new"}),
    ("a server that is away: a name alone is an error",
        {"with_id": "otter", **SENT}, AWAY, {"is_unanswered": False, "refusal": NOWHERE, "warns": "cannot determine whether run otter exists elsewhere: away"}),
    ("a run on this disk asks for what other machines recorded since", {"with_id": ID, **SENT}, {**FOUND, **THERE}, {"remote": KNOWN, "asked": ["find", f"remotes for {ID}"]}),
    ("a run on this disk goes on without an answer, with a line",
        {"with_id": "otter", **SENT}, {**FOUND, **AWAY}, {"run": ID, "is_unanswered": True, "refusal": None, "asked": ["find", f"remotes for {ID}"], "warns": "has records elsewhere"}),
    ("a purged run does not come back from a server",
        {"custom_run_id": "x", **SENT}, {"here": {by_custom_id("x"): PURGED}, "remote": RemoteAnswer(folder("x"), KNOWN)}, {"asked": [], "refusal": (ArgumentError, "was purged")}),
    ("ranks above 0 ask no remote: rank 0 answers for them",
        {"custom_run_id": "x", **SENT}, {"rank": 1, "remote": RemoteAnswer(folder("x"), KNOWN)}, {"remote": None, "asked": []}),
    ("'latest' at a server is the newest run there", {"with_id": "latest", **SENT}, THERE, {"run": ID, "asked": ["find", "remotes by name"]}),
    ("a restarted job without a named run asks no remote for one",
        SENT, {"restarts": 1, "remote": RemoteAnswer(folder(OTHER), KNOWN, Attempt(1, None))}, {"run": NEW, "remote": None, "asked": ["job"]}),
    ("a new run asks no remote", SENT, {}, {"run": NEW, "asked": []}),
    ("a restarted job asks for the rest of the run that it goes on with",
        SENT, {"restarts": 1, **LEFT, "here": {OTHER: HERE}, "remote": RemoteAnswer(folder(OTHER), KNOWN)}, {"run": OTHER, "remote": KNOWN, "begun": Attempt(1, None)}),
    ("a job restarted on another machine begins an attempt of its run at the server",
        {"custom_run_id": "x", **SENT}, {"restarts": 1, "remote": RemoteAnswer(folder("x"), KNOWN, Attempt(4, None))}, {"begun": Attempt(4, None)}),
    ("the newest attempt counts, whether this disk knows it or the server",
        {"custom_run_id": "x", **SENT}, {"restarts": 1, "job": (None, Attempt(9, None)), "remote": RemoteAnswer(folder("x"), KNOWN, Attempt(4, None))}, {"begun": Attempt(9, None)}),
    ("an attempt that another machine began since is not begun again",
        {"custom_run_id": "x", **SENT}, {"restarts": 1, "job": (None, Attempt(9, None)), "remote": RemoteAnswer(folder("x"), KNOWN, Attempt(12, None))}, {"begun": Attempt(12, None)}),
    ("owner=False begins no attempt of a run at a server",
        {"custom_run_id": "x", "owner": False, **SENT}, {"restarts": 1, "remote": RemoteAnswer(folder("x"), KNOWN, Attempt(4, None))}, {"begun": None}),
    # on_duplicate
    ("on_duplicate='new' does not look for the same run", {**PARAMS}, {"duplicate": OTHER}, {"run": NEW, "asked": []}),
    ("on_duplicate='reuse' goes on with the same run, and owns it",
        {**PARAMS, "on_duplicate": "reuse"}, {"duplicate": OTHER, "here": {OTHER: HERE}}, {"run": OTHER, "owner": True, "refusal": None, "job_run": JOB}),
    ("on_duplicate='reuse' with owner=False does not own it",
        {**PARAMS, "on_duplicate": "reuse", "owner": False}, {"duplicate": OTHER, "here": {OTHER: HERE}}, {"run": OTHER, "owner": False}),
    ("on_duplicate='reuse' resumes the same run from its server",
        {**PARAMS, "on_duplicate": "reuse", **SENT}, {"duplicate": OTHER, "remote": RemoteAnswer(folder(OTHER), KNOWN)}, {"run": OTHER, "remote": KNOWN, "asked": ["duplicate", f"remotes for {OTHER}"]}),
    ("ranks above 0 look for no duplicate", {**PARAMS, "on_duplicate": "error"}, {"rank": 1, "duplicate": OTHER}, {"run": NEW, "asked": []}),
    ("a restarted job goes on with its own run, not with a duplicate",
        {**PARAMS, "on_duplicate": "error"}, {"restarts": 1, "duplicate": OTHER, "job": (folder(ID), Attempt(1, None))}, {"run": ID}),
    # conflict and make_project
    ("conflict= gives a run the name that is free at its remotes",
        {"name": "a", "conflict": "new", **SENT}, {"name": ("a-2", (URL,))}, {"name": "a-2", "remotes": (URL,), "asked": ["name"]}),
    ("conflict='skip' sends nothing to a remote that has the name", {"name": "a", "conflict": "skip", **SENT}, {"name": ("a", ())}, {"name": "a", "remotes": ()}),
    ("conflict='error' is an error", {"name": "a", "conflict": "error", **SENT}, {"name": RunExistsError("has the name")}, {"raises": (RunExistsError, "has the name")}),
    ("make_project=False asks for the project", {"make_project": False, **SENT}, {"name": ArgumentError("no project")}, {"raises": (ArgumentError, "no project")}),
    ("make_project=True asks nobody", {"make_project": True, **SENT}, {}, {"asked": []}),
    ("without remotes there is no conflict", {"name": "a", "conflict": "error"}, {"name": RunExistsError("has the name")}, {"asked": []}),
    ("ranks above 0 ask for no name", {"name": "a", "conflict": "error", **SENT}, {"rank": 1, "name": RunExistsError("has the name")}, {"asked": []}),
    ("a run that goes on keeps its name",
        {"custom_run_id": "x", "conflict": "error", **SENT}, {"here": {by_custom_id("x"): HERE}, "name": RunExistsError("has the name")}, {"asked": [f"remotes for {by_custom_id('x')}"]}),
    ("a run that goes on from its server keeps its name",
        {"custom_run_id": "x", "conflict": "error", **SENT}, {"remote": RemoteAnswer(folder("x"), KNOWN), "name": RunExistsError("has the name")}, {"remote": KNOWN}),
    ("a run that cannot be opened claims no name", {"with_id": ID, "conflict": "error", **SENT}, {"name": RunExistsError("has the name")}, {"refusal": NOWHERE}),
)
# fmt: on


@table(("given", "answers", "expected"), ROWS)
def test_opening(given, answers, expected, caplog):
    """The decision is the one that the sentence of its row promises."""
    options, world = Settings.of(project="p", **given), Answers(**answers)
    if "raises" in expected:
        kind, words = expected["raises"]
        with pytest.raises(kind, match=words):
            resolve(options, world)
        return
    with caplog.at_level(logging.WARNING, logger="seamark"):
        found = resolve(options, world)
    if expected.get("run") == NEW:
        assert resolve(options, Answers(**answers)).folder != found.folder
    assert decided(found, world, expected) == expected
    assert expected.get("warns", "") in caplog.text
    assert bool(caplog.text) == ("warns" in expected)


def decided(found, world, expected):
    """Return what was decided of the things that a row names, in the form of a row."""
    facts: dict[str, Any] = {
        "run": found.folder.run,
        "project": found.folder.project,
        "refusal": found.refusal,
        "remote": found.remote,
        "is_unanswered": found.is_unanswered,
        "owner": found.options.owner,
        "name": found.options.name,
        "remotes": found.options.remotes,
        "asked": world.asked,
        "warns": expected.get("warns"),
        **{key: getattr(found.origin, key) for key in ("begun", "continues", "job_run")},
    }
    if expected.get("run") == NEW:
        assert facts["run"] not in (ID, OTHER)
        facts["run"] = NEW
    if isinstance(expected.get("refusal"), tuple):
        kind, words = expected["refusal"]
        assert isinstance(found.refusal, kind)
        assert words in str(found.refusal)
        facts["refusal"] = expected["refusal"]
    return {key: facts[key] for key in expected}


SAVED = Saved(OTHER, "p", {"w": 10})

# fmt: off
CHECKPOINTS: tuple[Row, ...] = (
    ("a checkpoint of the run itself begins an attempt", {"run": OTHER}, {}, {"switch": None, "begins": True, "notes_origin": False}),
    ("a checkpoint of the run itself that is only evaluated begins no attempt", {"run": OTHER, "training": False}, {}, {"switch": None, "begins": False, "notes_origin": False}),
    ("a run of the same id in another project is another run", {"run": OTHER, "project": "q"}, {"here": {OTHER: HERE}}, {"switch": OTHER}),
    ("resume='never' begins no attempt", {"run": OTHER, "resume": "never"}, {}, {"switch": None, "begins": False}),
    ("a run that holds nothing yet switches to the run of the checkpoint", {}, {"here": {OTHER: HERE}}, {"switch": OTHER, "begins": True, "notes_origin": False, "warns": None}),
    ("a run that has recorded something goes on, and names where its weights come from",
        {"is_new": False}, {"here": {OTHER: HERE}}, {"switch": None, "begins": False, "notes_origin": True, "warns": f"continuing with run {ID!r}"}),
    ("a run that is handed to a logger goes on", {"stay": True}, {"here": {OTHER: HERE}}, {"switch": None, "notes_origin": True, "warns": f"continuing with run {ID!r}"}),
    ("a run that was named goes on", {"custom_run_id": "x"}, {"here": {OTHER: HERE}}, {"switch": None, "notes_origin": True, "warns": "continuing with run"}),
    ("resume='never' goes on with a new run, and names where its weights come from",
        {"resume": "never"}, {"here": {OTHER: HERE}}, {"switch": None, "begins": False, "notes_origin": True, "warns": None}),
    ("a checkpoint that is only evaluated switches nothing", {"training": False}, {"here": {OTHER: HERE}}, {"switch": None, "begins": False, "notes_origin": True, "warns": None}),
    ("resume='must' evaluates in the run of the checkpoint, without an attempt",
        {"training": False, "resume": "must"}, {"here": {OTHER: HERE}}, {"switch": OTHER, "begins": False}),
    ("a checkpoint of a run that is nowhere is warned of", {}, {}, {"switch": None, "begins": False, "notes_origin": True, "warns": "recording a new run"}),
    ("resume='must' of a checkpoint whose run is nowhere is an error", {"resume": "must"}, {}, {"raises": (RunNotFoundError, "the checkpoint is of run")}),
    ("the run of a checkpoint is resumed from its server", SENT, {"remote": RemoteAnswer(folder(OTHER), KNOWN)}, {"switch": OTHER, "remote": KNOWN, "begins": True}),
    ("a server that is away: the run of a checkpoint is recorded as a new one",
        SENT, AWAY, {"switch": None, "notes_origin": True, "warns": "recording a new run", "logs": "exists elsewhere: away"}),
    ("a restarted job joins the attempt that another rank began at the server",
        SENT, {"restarts": 1, "remote": RemoteAnswer(folder(OTHER), KNOWN, Attempt(4, None))}, {"switch": OTHER, "begun": Attempt(4, None)}),
    ("a checkpoint that is evaluated after a restart begins no attempt",
        {"training": False, "resume": "must", **SENT}, {"restarts": 1, "remote": RemoteAnswer(folder(OTHER), KNOWN, Attempt(4, None))}, {"switch": OTHER, "begins": False, "begun": None}),
    ("resume='must' goes on with a run that has recorded something",
        {"is_new": False, "resume": "must"}, {"here": {OTHER: HERE}}, {"switch": None, "notes_origin": True, "warns": "continuing with run"}),
    ("mode='read-only' leaves everything as it is", {"mode": "read-only", "custom_run_id": "x"}, {"here": {OTHER: HERE}}, {"switch": None, "begins": False, "notes_origin": False}),
    ("mode='disabled' leaves everything as it is", {"mode": "disabled"}, {"here": {OTHER: HERE}}, {"switch": None, "begins": False, "notes_origin": False}),
)
# fmt: on


@table(("given", "answers", "expected"), CHECKPOINTS)
def test_checkpoint(given, answers, expected, caplog):
    """The decision where a checkpoint is loaded is the one that the sentence of its row promises."""
    how = {"stay": False, "training": True, "is_new": True}
    how |= {key: given[key] for key in how if key in given}
    place = folder(given.get("run", ID), given.get("project", "p"))
    options = {key: value for key, value in given.items() if key not in (*how, "run", "project")}
    origin = Origin(begun=Attempt(3, None), job_run=JOB)
    begun = Opening(Settings.of(project="p", **options), place, origin)
    if "raises" in expected:
        kind, words = expected["raises"]
        with pytest.raises(kind, match=words):
            resolve_checkpoint(begun, SAVED, Answers(**answers), **how)
        return
    world = Answers(**answers)
    with caplog.at_level(logging.WARNING, logger="seamark"):
        found = resolve_checkpoint(begun, SAVED, world, **how)
    assert reached(found, world, expected) == expected
    assert expected.get("logs", "") in caplog.text
    assert bool(caplog.text) == ("logs" in expected)
    if found.switch is not None:
        after = found.switch.origin
        assert (after.lineage, after.job_run, after.continues) == (origin.lineage, JOB, True)


def reached(found, world, expected):
    """Return what was decided of the things that a row names, in the form of a row."""
    switch, words = found.switch, expected.get("warns")
    assert words is None or words in str(found.warning)
    facts = {
        "switch": switch and switch.folder.run,
        "remote": switch and switch.remote,
        "is_unanswered": switch and switch.is_unanswered,
        "begins": found.begins,
        "notes_origin": found.notes_origin,
        "warns": words if found.warning is not None else None,
        "logs": expected.get("logs"),
        "asked": world.asked,
        "begun": switch and switch.origin.begun,
    }
    return {key: facts[key] for key in expected}


RESUMABLE = replace(KNOWN, resumable=True)
BEGUN = Origin(begun=Attempt(1, None))

# fmt: off
OWNERS: tuple[tuple[str, dict[str, Any], dict[str, Any], bool], ...] = (
    ("a run that was interrupted is owned by who opens it", {}, {"remote": RESUMABLE}, True),
    ("a run that ended for good, or has a living owner, is not", {}, {"remote": KNOWN}, False),
    ("a training owns its run whatever its state", {}, {"remote": KNOWN, "trains": True}, True),
    ("a restarted job owns its run", {}, {"remote": KNOWN, "origin": BEGUN}, True),
    ("owner=True owns it", {"owner": True}, {"remote": KNOWN}, True),
    ("owner=False never owns it", {"owner": False}, {"remote": RESUMABLE, "origin": BEGUN, "trains": True}, False),
    ("of a run that no remote has nothing is copied", {}, {"trains": True}, False),
)
# fmt: on


@table(("given", "facts", "expected"), OWNERS)
def test_who_may_own_a_run_at_a_remote(given, facts, expected):
    """The journals of a run are copied to the disk of a process that may own it."""
    how = {key: value for key, value in facts.items() if key != "trains"}
    opening = Opening(Settings.of(project="p", **given), folder(ID), **how)
    assert opening.may_own(trains=facts.get("trains", False)) is expected

"""Claims: one of many workers gets a run, or a group; also where folders are merged."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from command import output_of
from crew import crews
from recording import QUIET

import seamark
from seamark import errors
from seamark.journal.reader import SETTLE_NS
from seamark.journal.reservations import CLAIMS, MAX_CLAIMS

HALF_A_MINUTE_NS = 30 * 10**9
"""How long a claimant may be kept from what it does, between two lines of a test."""


def begin(count=1, project="team/x", **given):
    ids = []
    for number in range(count):
        with seamark.init_run(project=project, **QUIET, **given) as run:
            run["todo"], run["priority"] = True, number
        ids.append(run.id)
    return ids


def claim(project, query="todo = true", **given):
    return project.claim(query, **given, **QUIET)


def test_a_claimed_run_is_nobody_elses():
    first, second = begin(2)
    assert "CLAIMED" not in output_of("ls")
    with seamark.init_project("team") as project:
        assert claim(project, "priority > 7") is None
        assert not (project.folder.root / "team/x" / CLAIMS).exists()
        two = claim(project, sort_by="priority", ascending=False)
        one = claim(project, set={"worker/name": "a", "todo": True})
        assert (one.id, two.id) == (first, second)
        assert claim(project) is None
        assert one["worker/name"].fetch() == "a"
        assert one["sys/state"].fetch() == "running"
        by = one["sys/claimed_by"].fetch()
        assert by.endswith(f":{os.getpid()}")
        table = project.fetch_runs_table(query=f'sys/claimed_by = "{by}"', columns=[])
        assert table.total == 2
        assert by in output_of("ls", "--columns", "sys/claimed_by")
        assert f"claimed by  {by}" in output_of("show", one.id)
        one.stop()
        two.stop()
        assert "claimed by" not in output_of("show", one.id)


def test_what_the_last_claimant_wrote_is_waited_for(monkeypatch):
    """On a disk that shows it late, nobody gets the run before."""
    (only,) = begin()
    journals = Path(".seamark/team/x", only, "journal")
    begun = {*journals.iterdir()}
    monkeypatch.setattr("seamark.run.claims._PATIENCE_S", 0.0)
    with seamark.init_project("team") as project:
        claim(project).stop()
        (late,) = {*journals.iterdir()} - begun
        hidden = late.rename("hidden")
        assert claim(project) is None
        hidden.rename(late)
        claim(project).stop()


def test_the_query_is_asked_again_after_the_claim():
    """What an earlier claimant changed counts, though a look at all runs was before that."""
    (only,) = begin()
    with seamark.init_project("team/x") as project, seamark.init_project("team/x") as other:
        project.fetch_runs_table()
        index, select = project.session.recorded.index, project.session.recorded.index.select
        meanwhile = []

        def late(*given, **named):
            found = select(*given, **named)
            if not meanwhile:
                meanwhile.append(claim(other))
                meanwhile[0]["todo"] = False
                meanwhile[0].stop()
            return found

        index.select = late
        assert claim(project) is None
        assert meanwhile[0].id == only
        index.select = select
        free = claim(project, "todo = false")  # and what did not match was given back
        assert free.id == only
        free.stop()


def test_mistakes_claim_nothing():
    (only,) = begin()
    with seamark.init_project("team/x") as project:
        for given, error, why in (
            ({"query": "todo >"}, errors.QueryError, "todo >"),
            ({"set": ["a"]}, errors.ArgumentError, "set: expected a mapping"),
            ({"set": {"sys/state": "running"}}, errors.PathError, "sys/state"),
            ({"capture_stdot": False}, errors.UnknownArgumentError, "capture_stdot"),
        ):
            with pytest.raises(error, match=why):
                project.claim(**given)
        found = claim(project)
        assert found.id == only
        found.stop()
        with pytest.raises(errors.PathError, match="sys/claimed_by"):
            project["sys/claimed_by"] = "me"
    reader = seamark.init_project("team/x", mode="read-only")
    with pytest.raises(errors.ReadOnlyError, match="claim"):
        reader.claim()
    assert seamark.init_project("team/x", mode="disabled").claim() is None


def test_a_run_in_the_trash_is_not_claimed_and_a_purged_one_has_no_claim():
    first, second = begin(2)
    with seamark.init_project("team/x") as project:
        claim(project).stop()
        output_of("trash", first)
        run = claim(project)
        assert run.id == second
        run.stop()
        output_of("purge", first, "--yes")
        left = (project.folder.path.parent / CLAIMS).iterdir()
        assert sorted(one.name for one in left) == [f"{second}.1", f"{second}.1.released"]


def test_a_claim_lapses_when_its_process_was_silent_for_90_s(caplog):
    """As a run counts as crashed; who wakes up late is told, and changes no state."""
    (only,) = begin()
    with seamark.init_project("team/x") as project, seamark.init_project("team/x") as later:
        late = claim(project)
        clock = time.time_ns() + SETTLE_NS - HALF_A_MINUTE_NS
        later.session.recorded.index.now_ns = lambda: clock
        assert claim(later) is None
        clock += 2 * HALF_A_MINUTE_NS
        run = claim(later, set={"worker": 2})
        assert run.id == only
        assert (project.folder.path.parent / CLAIMS / f"{only}.2").is_file()
        with caplog.at_level(logging.WARNING, "seamark"):
            # what it does when it wakes up
            late.session.recorder.writer._upkeep.keep(heartbeat=True)
        assert f"{only} of project team/x is claimed by another process" in caplog.text
        assert not late.release()
        late.stop()
        assert run["sys/state"].fetch() == "running"
        assert run["sys/claimed_by"].fetch()
        assert run.release()
        run.stop()


WORKER = """
import os, random, seamark
quiet = {f"capture_{n}": False for n in ("stdout", "stderr", "hardware_metrics", "traceback")}
quiet["capture"] = dict.fromkeys(("script", "packages", "host", "git", "signals"), False)
random.seed(os.environ["SEED"])
with seamark.init_project("team/x") as project:
    while (run := project.claim("todo = true", **quiet)) is not None:
        number = run.session.hold.claim.number
        print(run.id, number, flush=True)
        first = (run.id, number) == (os.environ["DEADLY_RUN"], 1)
        if first or random.random() < 0.2:  # however the runs are shared, one dies at least
            os.kill(os.getpid(), 9)
        run["todo"] = False
        run.stop()
        print(run.id, "done", flush=True)
"""


@pytest.mark.once
def test_each_run_is_done_once_by_three_workers_that_may_die(forks, monkeypatch):
    runs, count = 10, 3
    ids = begin(runs)
    monkeypatch.setenv("DEADLY_RUN", ids[0])
    claimed: dict[str, list[int]] = {one: [] for one in ids}
    done: list[str] = []
    seed = 0
    while len(done) < runs:
        assert seed < 40 * count
        seeds = [{"SEED": str(seed + number)} for number in range(count)]
        seed += count
        for ended in forks.run(WORKER, environments=seeds):
            for line in ended.stdout.splitlines():
                run, _, what = line.partition(" ")
                if what == "done":
                    done.append(run)
                else:
                    claimed[run].append(int(what))
            assert ended.code in (0, -signal.SIGKILL)
    assert sorted(done) == sorted(ids), "each was done once"
    for run, numbers in claimed.items():  # and claimed again only by another number
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), run
    assert sum(map(len, claimed.values())) > runs, "some died"


def test_odd_files_among_the_claims_are_passed_over():
    first, second, third, fourth = begin(4)
    claims = Path(".seamark/team/x") / CLAIMS
    claims.mkdir()
    (claims / f"{first}.1").symlink_to("/etc/passwd")
    (claims / f"{second}.1").mkdir()
    os.mkfifo(claims / f"{third}.7")
    old = time.time() - 1000
    (claims / f"{fourth}.1").write_bytes(b"[" * (1 << 20))
    os.utime(claims / f"{fourth}.1", (old, old))
    odd = ("x", ".1", f"{first}.0", f"{first}.01", f"{first}.1x", "a.released")
    for name in (*odd, f"{first}.{'9' * 30}"):
        (claims / name).write_text("{}")
    with seamark.init_project("team/x") as project:
        found = [claim(project) for _ in range(4)]
        assert [run.id for run in found] == [first, second, third, fourth]
        assert (claims / f"{third}.8").is_file()
        assert claim(project) is None
        for run in found:
            run.stop()
        assert project.fetch_runs_table().total == 4
    assert Path("/etc/passwd").read_text()


def test_claims_with_false_facts_harm_nobody():
    ids = begin(4)
    claims = Path(".seamark/team/x") / CLAIMS
    claims.mkdir()
    fresh = {"host": "elsewhere", "pid": 3, "t": time.time_ns()}
    odd = {"pid": "x", "host": [1], "boot": {}, "start": None, "t": -5}
    for run, told in zip(ids, ({**fresh, "t": 2**80}, odd, fresh, {}), strict=True):
        (claims / f"{run}.1").write_text(json.dumps(told))
    (claims / f"{ids[3]}.{MAX_CLAIMS}").write_text("{}")
    with seamark.init_project("team/x") as project:
        one, two = claim(project), claim(project)
        assert [one.id, two.id] == ids[:2]
        assert claim(project) is None  # one is held, and of the other there is no next number
        one.stop()
        two.stop()


def test_a_claimed_group_is_nobody_elses():
    for name in ("folds", "seeds"):
        begin(groups=[name])
    with seamark.init_project("team/x") as project, seamark.init_project("team/x") as other:
        one = project.claim_group(set={"worker": "a"})
        assert one.name == "folds"
        assert other.claim_group("runs > 0", sort_by="sys/id").name == "seeds"
        assert other.claim_group() is None
        assert one["worker"].fetch() == "a"
        rows = {row["sys/id"]: row for row in project.fetch_groups_table()}
        assert rows["folds"]["claimed_by"].endswith(f":{os.getpid()}")
        assert one.release()
        assert not one.release()
        assert other.claim_group('metadata/worker = "a"').name == "folds"
        assert not project.group("folds").release()
    with seamark.init_project("team/x") as project:
        group = project.claim_group()
        assert group.name == "folds"
        with seamark.init_project("team/x") as later:  # the log of the project shows who lives
            clock = time.time_ns() + SETTLE_NS + HALF_A_MINUTE_NS
            later.session.recorded.index.now_ns = lambda: clock
            assert later.claim_group().name == "folds"
            assert not group.release()


PROJECT = "team/x"
TODO = "parameters/todo = true"


@pytest.fixture(scope="module")
def hosts():
    with crews("ada", "bob") as found:
        yield found


@pytest.fixture
def sides(hosts, tmp_path):
    """A worker on each machine, and its root."""
    found = []
    for number, crew in enumerate(hosts):
        root, cache = tmp_path / f"root{number}", tmp_path / f"cache{number}"
        root.mkdir()
        cache.mkdir()
        found.append((crew.hire(root, cache), root))
    return found


def send(source, target, *, append=False):
    """Copy files that differ, like ``rsync -a --checksum``; or what is new, like ``--append``."""
    for mine in sorted(source.rglob("*")):
        theirs = target / mine.relative_to(source)
        if mine.is_dir():
            theirs.mkdir(parents=True, exist_ok=True)
        elif append and theirs.exists():
            with theirs.open("ab") as file:
                file.write(mine.read_bytes()[theirs.stat().st_size :])
        elif not theirs.exists() or mine.read_bytes() != theirs.read_bytes():
            copy = theirs.with_name(f".{theirs.name}.copy")
            shutil.copy2(mine, copy)
            copy.replace(theirs)


def merge(one, other):
    send(one, other, append=True)
    send(other, one, append=True)
    send(one, other)


@pytest.mark.once
@pytest.mark.parametrize("released", [False, True])
def test_one_of_two_machines_that_claimed_a_run_has_it(sides, released):
    (one, root), (other, there) = sides
    run = one.do("begin", 0, PROJECT, {"params": {"todo": True}})
    one.do("stop", 0)
    merge(root, there)
    for worker in (one, other):
        assert worker.do("claim", 1, PROJECT, TODO, None) == run
    if released:
        assert other.do("release", 1) is True
    merge(root, there)
    for worker in (one, other):
        assert worker.do("claim", 2, PROJECT, TODO, None) is None
    assert [worker.do("release", 1) for worker in (one, other)] == [True, False]
    merge(root, there)
    assert other.do("claim", 2, PROJECT, TODO, None) == run


@pytest.mark.once
def test_a_folder_is_merged_both_ways_while_it_is_recorded(sides):
    """An older copy that comes back takes nothing from who records."""
    (one, root), (other, there) = sides
    run = one.do("begin", 0, PROJECT, {})
    for step in range(5):
        one.do("row", 0, {"loss": float(step)}, float(step))
        send(root, there)
        one.do("row", 0, {"loss": step + 0.5}, step + 0.5)
        send(there, root)
    one.do("stop", 0)
    merge(root, there)
    for worker in (one, other):
        told = worker.do("read_at", "run", PROJECT, run)
        assert told["series"]["loss"]["step"] == [step / 2 for step in range(10)]

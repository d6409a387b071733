"""``seamark watch`` follows a run to its end, reads only, and leaves the terminal as it was."""

from __future__ import annotations

import itertools
import re
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def live(start):
    """A live run, and a function that makes its next step."""
    run, steps = start("p", name="live"), itertools.count()

    def step():
        at = next(steps)
        run.log_metrics({"loss": 1 / (at + 1), "epoch": at // 2}, at)

    step()
    yield SimpleNamespace(run=run, step=step, end=run.stop)
    run.stop()


def test_pipe_gets_a_line_for_each_change(cli, live, between):
    waited = between(live.step, lambda: None, live.step, live.end)
    done = cli("watch", "--interval", "7")
    assert done.exit_code == 0
    assert re.fullmatch(r"seamark: completed: .*\n", done.stderr)  # what the training says itself
    head, *lines = done.stdout.splitlines()
    assert head.startswith("live: ")
    told = [re.sub(r"^\S+ \S+|, [\d.e+]+ steps/s", "", line) for line in lines]
    assert told == [
        "  running  step 0, epoch 0  loss=1.0",
        "  running  step 1, epoch 0  loss=0.5",
        "  running  step 2, epoch 1  loss=0.3333333333333333",
        "  completed  step 2, epoch 1  loss=0.3333333333333333",
    ]
    assert all("steps/s" in line for line in lines[1:])
    assert waited == [7.0] * 4


def test_killed_training_is_not_waited_for(cli, between, training):
    training.do("begin", 0, "p", {})
    training.do("row", 0, {"loss": 1.0}, 0)
    training.do("sync", 0)
    between(training.kill)
    done = cli("watch")
    assert done.exit_code == 0
    assert "  crashed  step 0" in done.stdout
    assert "! crashed: its process ended without reporting why" in done.stdout


@pytest.mark.once
def test_newest_run_is_shown_if_none_is_live(cli, record, terminal):
    assert cli("watch").exit_code == 2
    assert "nothing to watch: no runs in" in cli("watch").stderr
    record(name="old"), record(name="new")
    done = cli("watch")
    assert (done.exit_code, done.stderr) == (0, "no run is running; watching the newest one\n")
    assert done.stdout.startswith("new: ")
    for shown in (done.stdout, terminal("watch", "new", TERM="dumb")[1]):
        assert "completed  step 19" in shown
        assert "\x1b" not in shown


def test_series_of_ranks_and_monitoring_are_shown_on_request(cli, start):
    with start("p", name="one") as run:
        for path in ("loss", "monitoring/gpu", "profiling/step_time_s", "ranks/1/loss", "a/epoch"):
            run[path].append(1.0)
        run["profiling/eta_s"].append(130.0)
    shown = cli("watch", "one").stdout.splitlines()[1]
    assert shown.endswith("completed  step 0, epoch 1, about 2 min 10 s left  loss=1.0")
    shown = cli("watch", "one", "--path", "monitoring", "--path", "*ranks*").stdout.splitlines()[1]
    assert shown.endswith("ranks/1/loss=1.0 monitoring/gpu=1.0")


def test_watch_writes_nothing_into_the_run(cli, start, between):
    run = start("p", name="one")
    run.log_metrics({"loss": 1.0}, 0)

    def files():
        found = sorted(run.root.rglob("*"))
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = files()
    kept: list[dict[Path, Any]] = []
    between(lambda: kept.append(files()), lambda: kept.append(files()), run.stop)
    assert cli("watch", run.id).exit_code == 0
    journals = {journal.path for journal in run.folder.journals()}  # heartbeats may come meanwhile
    for one in (before, *kept):
        one.update(dict.fromkeys(journals & one.keys()))
    assert kept == [before, before]


def test_ranks_are_shown_with_the_last_one_first(start, screen, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with start("p", custom_run_id="one", ranks="all") as run:
            for step in range(10 - 4 * (rank == 1)):
                run.log_metrics({"loss": 1.0}, step)
    shown = screen("watch", run.id, columns=100, NO_COLOR="1")
    assert "ranks       3: 3 completed" in shown
    rows = re.findall(r"^ *(\d) +completed +\S.*$", shown, re.MULTILINE)
    assert rows[-3:] == ["1", "0", "2"]  # drawn again when it ends
    assert re.search(r"^ *1 +completed .* 4 steps", shown, re.MULTILINE)


def test_terminal_is_redrawn_until_the_run_ends(live, terminal, between):
    between(live.step, live.end)
    code, shown = terminal("watch")
    assert code == 0
    for text in ("step 0", "step 1", "Ctrl-C stops watching; the training continues"):
        assert text in shown
    last = shown.rpartition("\x1b[2K")[2]
    for text in ("completed", "loss", "▁"):
        assert text in last
    assert "Ctrl-C" not in last
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is shown again


def test_ctrl_c_stops_watching_and_not_the_training(cli, live, terminal, between):
    between(lambda: signal.raise_signal(signal.SIGINT))
    code, shown = terminal("watch", "live")
    assert code == 130
    assert "step 0" in shown
    assert "Traceback" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    live.step()
    live.end()
    assert cli("show", "live").stdout.startswith("live  completed\n")

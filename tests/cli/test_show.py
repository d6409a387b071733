from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from seamark.types import File

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from seamark.run.run import Run


@pytest.fixture
def rich_run(start: Callable[..., Run], tmp_path: Path) -> Run:
    """A run with something of most kinds."""
    run = start("team/vision", name="quiet-otter", description="a try", tags=["fast", "digits"])
    run["parameters"] = {"lr": 0.1, "big": 10**40, "layers": [1, 2], "on": True, "none": None}
    for step in range(40):
        run.log_metrics({"val/loss": math.nan if step == 7 else 1 / (step + 1)}, step=step)
        run["log"].append(f"epoch {step}", step=step)
    run["report"].upload(File.from_content("a report", extension="txt"))
    run["notes"] = "first line\nsecond line"
    run.stop()
    return run


def test_everything_is_shown(cli: Callable[..., Result], rich_run: Run) -> None:
    """State, facts, values, series, texts and files; in a pipe nothing is cut short."""
    shown = cli("show", rich_run.id).stdout
    assert shown.startswith("quiet-otter  completed\n")
    assert f"team/vision/{rich_run.id}" in shown
    assert "digits, fast" in shown
    assert str(10**40) in shown
    assert "[1, 2]" in shown
    assert r"first line\nsecond line" in shown
    assert "40 (1 not finite)" in shown
    assert "epoch 39" in shown
    assert "8 B" in shown
    assert "kept" in shown


def test_a_path_narrows_it(cli: Callable[..., Result], rich_run: Run) -> None:
    """One namespace, one value in full, the last points of one series, the lines of one log."""
    shown = cli("show", rich_run.id, "parameters").stdout
    assert "parameters/lr" in shown
    assert "val/loss" not in shown
    assert cli("show", rich_run.id, "notes").stdout == "first line\nsecond line\n"
    points = cli("show", rich_run.id, "val/loss", "--limit", 3).stdout
    assert [line.split()[0] for line in points.splitlines()[-3:]] == ["37", "38", "39"]
    assert cli("show", rich_run.id, "log", "--limit", 2).stdout.splitlines() == [
        "38  epoch 38",
        "39  epoch 39",
    ]
    assert "sha256" in cli("show", rich_run.id, "report").stdout


def test_a_path_that_is_not_there_is_an_error(cli: Callable[..., Result], rich_run: Run) -> None:
    """Exit code 2, and how to see what there is."""
    result = cli("show", rich_run.id, "val/los")
    assert result.exit_code == 2
    assert "nothing is recorded at val/los" in result.stderr


def test_json_is_complete_and_exact(cli: Callable[..., Result], rich_run: Run) -> None:
    """Types and summaries, NaN as text, whole numbers with all digits."""
    result = cli("show", rich_run.id, "--json")
    document = json.loads(result.stdout, parse_constant=pytest.fail)
    shown = document["attributes"]
    assert (document["project"], document["run"]) == ("team/vision", rich_run.id)
    assert shown["parameters/big"] == {"family": "atom", "type": "int", "value": 10**40}
    assert shown["val/loss"]["value"]["nan_count"] == 1
    assert shown["val/loss"]["value"]["last"] == 1 / 40
    assert shown["sys/tags"]["value"] == ["digits", "fast"]
    assert shown["log"]["value"]["count"] == 40


@pytest.mark.parametrize("how", ["id", "project/id", "name", "prefix", "latest"])
def test_a_run_goes_by_many_names(cli: Callable[..., Result], rich_run: Run, how: str) -> None:
    """Id, project and id, name, the beginning of the id, and the newest one."""
    name = {
        "id": rich_run.id,
        "project/id": f"team/vision/{rich_run.id}",
        "name": "quiet-otter",
        "prefix": rich_run.id[:10],
        "latest": "latest",
    }[how]
    assert cli("show", name).stdout.startswith("quiet-otter")


def test_the_newest_run_is_meant_by_when_it_was_created(
    cli: Callable[..., Result], start: Callable[..., Run]
) -> None:
    """Not by its id, which says nothing for a custom one."""
    for custom in ("b", "a", "c"):
        start(custom_run_id=custom, name=f"run {custom}").stop()
    assert cli("show", "latest").stdout.startswith("run c")


def test_ambiguous_names_list_what_they_may_mean(
    cli: Callable[..., Result], record: Callable[..., str]
) -> None:
    """Exit code 2, with every candidate, and --project tells them apart."""
    first, second = record("one", name="twin"), record("two", name="twin")
    result = cli("show", "twin")
    assert result.exit_code == 2
    assert f"one/{first}" in result.stderr
    assert f"two/{second}" in result.stderr
    assert cli("show", "twin", "--project", "two").exit_code == 0


def test_failures_and_losses_are_loud(
    cli: Callable[..., Result], start: Callable[..., Run]
) -> None:
    """The exception, and what could not be recorded."""
    run = start()
    run.log_metrics({"loss": 1.0, "bad": "text"}, step=0)
    explode = ValueError("the loss exploded")
    with pytest.raises(ValueError, match="exploded"), run:
        raise explode
    shown = cli("show", run.id).stdout
    assert "failed" in shown.splitlines()[0]
    assert "! failed: ValueError: the loss exploded" in shown
    assert "! lost while recording:" in shown


def test_a_failure_goes_with_the_traceback_of_rank_0(
    cli: Callable[..., Result], start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rank of a training that fails has one; the others say that a peer was lost."""
    monkeypatch.setenv("WORLD_SIZE", "6")
    for rank in range(6):
        monkeypatch.setenv("RANK", str(rank))
        run = start("p", custom_run_id="one", ranks="all", capture_traceback=True)
        if rank == 0:
            first = run.writer
        error = ValueError(f"of rank {rank}")
        with pytest.raises(ValueError, match="of rank"), run:
            raise error
    shown = cli("show", run.id).stdout
    assert f"! failed: ValueError: of rank 0 (seamark show {run.id} monitoring/{first}/tr" in shown


def test_damage_is_loud(cli: Callable[..., Result], record: Callable[..., str], root: Path) -> None:
    """Whoever looks at a damaged run learns of it."""
    run = record()
    (journal,) = (root / "default" / run / "journal").iterdir()
    data = bytearray(journal.read_bytes())
    data[len(data) // 2] ^= 1
    journal.write_bytes(data)
    assert "! damaged:" in cli("show", run).stdout


@pytest.mark.slow
def test_hostile_names_reach_no_terminal(
    start: Callable[..., Run], terminal: Callable[..., tuple[int, str]]
) -> None:
    """Escapes and markup in names, values, tags and texts are shown, not obeyed."""
    evil = "\x1b]0;owned\x07[red]\x1b[2J\u202e"
    run = start(name=evil, tags=[evil], description=evil)
    run["value"] = evil
    run["log"].append(evil)
    run["files"].upload(File.from_content("x", extension="txt"))
    run.stop()
    for words in (
        ["show", run.id],
        ["show", run.id, "value"],
        ["show", run.id, "log"],
        ["ls"],
        ["ls", "--columns", "value"],
        ["export", run.id, "--what", "texts"],
        ["show", run.id, "--json"],
    ):
        code, shown = terminal(*words, columns=200)
        assert code == 0
        assert "\x1b]0" not in shown
        assert "\x1b[2J" not in shown
        assert "\x07" not in shown
        assert "\u202e" not in shown
    assert "[red]" in terminal("ls", columns=200)[1]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_lines_fit_the_terminal(
    rich_run: Run, terminal: Callable[..., tuple[int, str]], columns: int
) -> None:
    """Tables get narrower instead of breaking their lines."""
    import re

    code, shown = terminal("show", rich_run.id, "val/loss", "parameters", columns=columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= columns
    assert "\x1b[" in shown


def test_no_color_is_respected(rich_run: Run, terminal: Callable[..., tuple[int, str]]) -> None:
    """NO_COLOR takes the colours out and leaves the rest."""
    code, shown = terminal("show", rich_run.id, NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in shown
    assert "quiet-otter" in shown


def test_paths_on_a_narrow_terminal_can_be_told_apart(
    start: Callable[..., Run], terminal: Callable[..., tuple[int, str]]
) -> None:
    """Other columns give way first; what is left of a path is the part that differs, whole."""
    paths = [
        f"profiling/handlers/{event}_COMPLETED/OutputHandler_s" for event in ("EPOCH", "BATCH")
    ]
    run = start()
    for step in range(3):
        run.log_metrics(dict.fromkeys([*paths, "profiling/short"], 0.00012345), step)
    run.stop()
    code, shown = terminal("show", run.id, "profiling", columns=80)
    assert code == 0
    assert "EPOCH_COMPLETED/OutputHandler_s" in shown
    assert "BATCH_COMPLETED/OutputHandler_s" in shown


def test_series_of_profiled_actions_are_counted_unless_asked_for(
    start: Callable[..., Run], cli: Callable[..., Result]
) -> None:
    """A profiled training has hundreds of them, which would bury its metrics."""
    run = start()
    run.log_metrics({f"profiling/actions/a{n}_s": 1.0 for n in range(50)} | {"train/loss": 0.5}, 0)
    run["profiling/actions/largest_cost"] = "The largest cost is a1"
    run["profiling/step_time_s"].append(0.25)
    run.stop()
    shown = cli("show", run.id).stdout
    assert "Series (2)" in shown
    assert "train/loss" in shown
    assert "The largest cost is a1" in shown
    assert "profiling/step_time_s" in shown
    assert "a17_s" not in shown
    more = f"50 more series under profiling/actions: seamark show {run.id} profiling/actions"
    assert more in shown
    assert "profiling/actions/a17_s" in cli("show", run.id, "profiling/actions").stdout
    assert "profiling/actions/a17_s" in cli("show", run.id, "profiling").stdout

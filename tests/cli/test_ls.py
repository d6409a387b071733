from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from seamark.run.run import Run


@pytest.fixture
def five(start: Callable[..., Run]) -> list[str]:
    """Five runs that differ in rate and loss; the fourth one's loss is NaN, the last has none."""
    ids = []
    for number in range(5):
        run = start(
            "team/a" if number < 3 else "team/b",
            name=f"run {number}",
            tags=["odd"] if number % 2 else ["even"],
            params={"lr": 10.0**-number, "same": 1, "text": "x" * number},
        )
        if number < 4:
            run.log_metrics({"val/loss": math.nan if number == 3 else number * 1.0}, step=0)
            run.log_metrics({"val/loss": math.nan if number == 3 else number + 0.5}, step=1)
        run.stop()
        ids.append(run.id)
    return ids


def listed(cli: Callable[..., Result], *words: object) -> list[dict[str, Any]]:
    result = cli("ls", "--json", *words)
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout, parse_constant=pytest.fail)
    return found


def names(cli: Callable[..., Result], *words: object) -> list[int]:
    return [int(row["sys/name"].split()[1]) for row in listed(cli, "--columns", "sys/name", *words)]


def test_newest_first(cli: Callable[..., Result], five: list[str]) -> None:
    """Without any option."""
    assert [row["run"] for row in listed(cli)] == five[::-1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--asc"], [0, 1, 2, 3, 4]),
        (["--limit", "2"], [4, 3]),
        (["--project", "team/a"], [2, 1, 0]),
        (["--project", "team"], [4, 3, 2, 1, 0]),
        (["--tag", "odd"], [3, 1]),
        (["--tag", "odd", "--tag", "even"], []),
        (["--state", "completed", "--limit", "1"], [4]),
        (["--state", "failed"], []),
        (["--query", "parameters/lr < 0.05"], [4, 3, 2]),
        (["--query", 'sys/name =~ "[12]$" OR parameters/lr = 1.0'], [2, 1, 0]),
        (["--sort", "parameters/lr", "--asc"], [4, 3, 2, 1, 0]),
        (["--sort", "val/loss:min", "--asc"], [0, 1, 2, 3, 4]),
        (["--sort", "val/loss:min", "--desc"], [2, 1, 0, 3, 4]),
        (["--sort", "val/loss", "--desc"], [2, 1, 0, 3, 4]),
    ],
)
def test_choosing_and_sorting(
    cli: Callable[..., Result], five: list[str], words: list[str], expected: list[int]
) -> None:
    """By project, tag, state and query; NaN and then missing values come last, up and down."""
    assert names(cli, *words) == expected


def test_columns(cli: Callable[..., Result], five: list[str]) -> None:
    """Paths, aggregates and patterns; NaN is text in JSON, a missing value is null."""
    rows = listed(cli, "--columns", "val/loss,val/loss:min,parameters/*", "--asc")
    assert list(rows[0])[:4] == ["project", "run", "val/loss", "val/loss:min"]
    assert (rows[1]["val/loss"], rows[1]["val/loss:min"]) == (1.5, 1.0)
    assert rows[3]["val/loss"] == "nan"
    assert rows[4]["val/loss"] is None
    assert {"parameters/lr", "parameters/same", "parameters/text"} <= set(rows[0])


def test_only_what_differs(cli: Callable[..., Result], five: list[str]) -> None:
    """Columns that are the same for all runs are left out on request."""
    rows = listed(cli, "--columns", "parameters/*", "--differing")
    assert "parameters/lr" in rows[0]
    assert "parameters/same" not in rows[0]


def test_a_cut_list_says_so(cli: Callable[..., Result], five: list[str]) -> None:
    """On standard error, so that pipes stay clean; 0 means all."""
    assert "2 runs of 5" in cli("ls", "--limit", 2).stderr
    assert cli("ls", "--limit", 0).stderr == ""


def test_csv_holds_all_digits(cli: Callable[..., Result], five: list[str]) -> None:
    """One line for each run, an empty cell where nothing is recorded."""
    text = cli("ls", "--csv", "--asc", "--columns", "sys/name,val/loss,parameters/lr").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == five
    assert [row["val/loss"] for row in rows] == ["0.5", "1.5", "2.5", "nan", ""]
    assert float(rows[3]["parameters/lr"]) == 10.0**-3


def test_pipes_get_plain_whole_lines(
    cli: Callable[..., Result], record: Callable[..., str]
) -> None:
    """One line for each run, however long."""
    long = "a very long name " * 20
    record(name=long.strip())
    shown = cli("ls").stdout
    assert long.strip() in shown
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("columns", [20, 40, 80])
def test_terminals_get_lines_that_fit(
    terminal: Callable[..., tuple[int, str]], five: list[str], columns: int
) -> None:
    """Columns are shortened or left out, and what was left out is said."""
    code, shown = terminal("ls", columns=columns)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    table = [line for line in plain if any(run in line for run in five)]
    assert len(table) == 5
    assert max(map(len, table)) <= columns
    if columns == 20:
        assert "no room for" in " ".join(plain)


def test_no_runs_is_no_error(cli: Callable[..., Result], root: object) -> None:
    """An empty list for programs."""
    assert listed(cli) == []
    assert cli("ls").exit_code == 0


def test_bad_queries_point_at_the_place(cli: Callable[..., Result], five: list[str]) -> None:
    """Exit code 2."""
    result = cli("ls", "--query", "parameters/lr <")
    assert result.exit_code == 2
    assert "query" in result.stderr


def test_a_path_that_no_run_has_is_said_with_those_that_end_like_it(
    cli: Callable[..., Result], start: Callable[..., Run]
) -> None:
    """A prefix that was forgotten does not look like runs without values."""
    run = start()
    run.log_metrics({"training/val/loss": 0.5}, step=0)
    run.stop()
    said = "no run has 'val/loss'; there is 'training/val/loss'"
    assert said in cli("ls", "--sort", "val/loss:min").stderr
    assert said in cli("ls", "--columns", "val/loss").stderr
    assert said in cli("ls", "--query", "val/loss < 1").stderr
    assert "no run has" not in cli("ls", "--sort", "training/val/loss").stderr

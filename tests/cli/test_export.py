from __future__ import annotations

import csv
import io
import json
import math
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from seamark.run.run import Run

VALUES = [0.1, math.nan, math.inf, -math.inf, 1e-320, 123456789.123456789]
STEPS = [0, 1, 1, 2.5, 2**53, -3]


@pytest.fixture
def run(start: Callable[..., Run]) -> Run:
    one = start(name="odd")
    for step, value in zip(STEPS, VALUES, strict=True):
        one.log_metrics({"loss": value}, step=step)
    one["texts"].append('quoted "text", with\nlines', step=0)
    one["parameters"] = {
        "big": 2**200,
        "nan": math.nan,
        "text": "0012",
        "when": datetime(2026, 1, 2, tzinfo=timezone.utc),
    }
    one.stop()
    return one


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_series_survive_as_csv(cli: Callable[..., Result], run: Run) -> None:
    """Every point with all its digits, NaN and infinities too, in the order (step, writing)."""
    found = rows(cli("export", run.id).stdout)
    assert list(found[0]) == ["run", "path", "step", "value", "time", "attempt"]
    expected = sorted(zip(STEPS, VALUES, strict=True), key=lambda pair: pair[0])
    assert [float(row["step"]) for row in found] == [step for step, _ in expected]
    assert [repr(float(row["value"])) for row in found] == [repr(value) for _, value in expected]
    assert {row["run"] for row in found} == {run.id}
    assert {row["attempt"] for row in found} == {"0"}
    assert all(row["time"].endswith("Z") for row in found)
    assert found[1]["step"] == "0"


def test_pandas_reads_the_csv(cli: Callable[..., Result], run: Run) -> None:
    """Without any option numbers are numbers; times keep their nanoseconds."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(io.StringIO(cli("export", run.id).stdout), parse_dates=["time"])
    assert frame["value"].dtype == "float64"
    assert frame["step"].dtype == "float64"
    assert frame["value"].isna().sum() == 1


def test_attributes_survive_as_csv(cli: Callable[..., Result], run: Run) -> None:
    """Types beside values; texts as they are, whole numbers with all digits."""
    found = {row["path"]: row for row in rows(cli("export", run.id, "--what", "attributes").stdout)}
    assert found["parameters/big"]["value"] == str(2**200)
    assert found["parameters/nan"]["value"] == "nan"
    assert found["parameters/text"]["value"] == "0012"
    assert found["parameters/text"]["type"] == "string"
    assert datetime.fromisoformat(found["parameters/when"]["value"]) == datetime(
        2026, 1, 2, tzinfo=timezone.utc
    )
    assert json.loads(found["loss"]["value"])["count"] == len(VALUES)


def test_texts_survive_as_csv(cli: Callable[..., Result], run: Run) -> None:
    """Quotes, commas and line feeds."""
    (found,) = rows(cli("export", run.id, "--what", "texts").stdout)
    assert found["value"] == 'quoted "text", with\nlines'


def strict(text: str) -> Any:
    return json.loads(text, parse_constant=pytest.fail)


def test_json_holds_everything_strictly(cli: Callable[..., Result], run: Run) -> None:
    """One document; what JSON has no number for is text."""
    (found,) = strict(cli("export", run.id, "--format", "json").stdout)["runs"]
    series = found["series"]["loss"]
    assert sorted(series) == ["attempt", "step", "time", "value"]
    assert [repr(float(value)) for value in series["value"]] == [
        repr(value)
        for _, value in sorted(zip(STEPS, VALUES, strict=True), key=lambda pair: pair[0])
    ]
    assert "nan" in series["value"]
    assert found["texts"]["texts"]["value"] == ['quoted "text", with\nlines']
    assert found["attributes"]["parameters/big"]["value"] == 2**200


def test_many_runs_by_query(cli: Callable[..., Result], record: Callable[..., str]) -> None:
    """A query, or all."""
    short, long = record(steps=2), record(steps=30)
    found = rows(cli("export", "--query", "train/loss:count > 10").stdout)
    assert {row["run"] for row in found} == {long}
    assert {row["run"] for row in rows(cli("export", "--all").stdout)} == {short, long}
    assert len(strict(cli("export", "--all", "--format", "json").stdout)["runs"]) == 2


def test_paths_narrow_it(cli: Callable[..., Result], record: Callable[..., str]) -> None:
    """A path, a namespace, or a pattern."""
    run = record()
    for pattern in ("val/loss", "val", "val/*", "*al/l*"):
        assert {row["path"] for row in rows(cli("export", run, "--path", pattern).stdout)} == {
            "val/loss"
        }


def test_a_file_is_whole_or_not_there(
    cli: Callable[..., Result],
    record: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ending chooses the format; what fails on the way leaves what was there before."""
    run = record()
    target = tmp_path / "out.json"
    assert cli("export", run, "--out", target).exit_code == 0
    before = target.read_text(encoding="utf-8")
    assert strict(before)["runs"]

    def fail(*_: object) -> None:
        msg = "no more room"
        raise OSError(28, msg)

    monkeypatch.setattr("seamark.cli.export._document", fail)
    result = cli("export", run, "--out", target)
    assert result.exit_code == 1
    assert "no more room" in result.stderr
    assert target.read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.json"]


def test_a_folder_that_is_not_there_is_a_mistake(
    cli: Callable[..., Result], record: Callable[..., str], tmp_path: Path
) -> None:
    """Told before anything is read."""
    result = cli("export", record(), "--out", tmp_path / "no" / "x.csv")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr

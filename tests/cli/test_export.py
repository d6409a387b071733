from __future__ import annotations

import csv
import io
import json
import math
import sys
from datetime import datetime, timezone

import pytest

VALUES = [0.1, math.nan, math.inf, -math.inf, 1e-320, 123456789.123456789]
STEPS = [0, 1, 1, 2.5, 2**53, -3]


@pytest.fixture
def run(start):
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


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_series_survive_as_csv(cli, run):
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


@pytest.mark.once
def test_pandas_reads_the_csv(cli, run):
    """Without any option numbers are numbers; times keep their nanoseconds."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(io.StringIO(cli("export", run.id).stdout), parse_dates=["time"])
    assert frame["value"].dtype == "float64"
    assert frame["step"].dtype == "float64"
    assert frame["value"].isna().sum() == 1


def test_attributes_survive_as_csv(cli, run):
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


def test_texts_survive_as_csv(cli, run):
    """Quotes, commas and line feeds."""
    (found,) = rows(cli("export", run.id, "--what", "texts").stdout)
    assert found["value"] == 'quoted "text", with\nlines'


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


def test_json_holds_everything_strictly(cli, run):
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


def test_many_runs_by_query(cli, record):
    """A query, or all."""
    short, long = record(steps=2), record(steps=30)
    found = rows(cli("export", "--query", "train/loss:count > 10").stdout)
    assert {row["run"] for row in found} == {long}
    assert {row["run"] for row in rows(cli("export", "--all").stdout)} == {short, long}
    assert len(strict(cli("export", "--all", "--format", "json").stdout)["runs"]) == 2


def test_paths_narrow_it(cli, record):
    """A path, a namespace, or a pattern."""
    run = record()
    for pattern in ("val/loss", "val", "val/*", "*al/l*"):
        assert {row["path"] for row in rows(cli("export", run, "--path", pattern).stdout)} == {
            "val/loss"
        }


def test_a_file_is_whole_or_not_there(cli, record, tmp_path, monkeypatch):
    """The ending chooses the format; what fails on the way leaves what was there before."""
    run = record()
    target = tmp_path / "out.json"
    assert cli("export", run, "--out", target).exit_code == 0
    before = target.read_text(encoding="utf-8")
    assert strict(before)["runs"]

    def fail(*_, **__):
        msg = "no more room"
        raise OSError(28, msg)

    monkeypatch.setattr("seamark.cli.export.document_of", fail)
    result = cli("export", run, "--out", target, "--force")
    assert result.exit_code == 1
    assert "no more room" in result.stderr
    assert target.read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.json"]


def test_a_folder_that_is_not_there_is_a_mistake(cli, record, tmp_path):
    """Told before anything is read."""
    result = cli("export", record(), "--out", tmp_path / "no" / "x.csv")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr


# Files


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x.xlsx"], "expected one of .csv, .json, .parquet, or --format"),
        (["-o", "noending"], "expected one of .csv, .json, .parquet, or --format"),
        (["-o", "x.csv", "--format", "json"], "--format json contradicts the ending of x.csv"),
        (["--format", "parquet"], "name a file with -o FILE.parquet"),
    ],
)
def test_the_format_is_never_guessed(cli, record, tmp_path, monkeypatch, words, message):
    """A file's ending says it; one that says nothing needs --format. Nothing is written."""
    monkeypatch.chdir(tmp_path)
    result = cli("export", record(), *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_a_format_may_be_said_where_the_ending_does_not(cli, record, tmp_path):
    """Upper case says it too."""
    run = record()
    assert cli("export", run, "-o", tmp_path / "x.dat", "--format", "json").exit_code == 0
    assert strict((tmp_path / "x.dat").read_text("utf-8"))["runs"]
    assert cli("export", run, "-o", tmp_path / "x.CSV").exit_code == 0
    assert (tmp_path / "x.CSV").read_text("utf-8").startswith("run,path,")


def test_parquet_is_parquet_or_names_the_extra(cli, record, tmp_path, monkeypatch):
    """Without pyarrow nothing is written under that name."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = cli("export", record(), "-o", tmp_path / "x.parquet")
    assert result.exit_code == 2
    assert 'pip install "seamark[parquet]"' in result.stderr
    assert not (tmp_path / "x.parquet").exists()


def test_series_survive_as_parquet(cli, run, record, tmp_path):
    """The same rows as in CSV, with their types."""
    parquet = pytest.importorskip("pyarrow.parquet")
    record()
    target = tmp_path / "x.parquet"
    assert cli("export", "--all", "-o", target).exit_code == 0
    table = parquet.read_table(target)
    assert list(map(str, table.schema.types)) == [
        "string", "string", "double", "double", "timestamp[ns, tz=UTC]", "int64"
    ]  # fmt: skip
    expected = rows(cli("export", "--all").stdout)
    found = table.to_pydict()
    assert found["run"] == [row["run"] for row in expected]
    assert found["path"] == [row["path"] for row in expected]
    assert found["step"] == [float(row["step"]) for row in expected]
    assert list(map(repr, found["value"])) == [row["value"] for row in expected]
    times = [f"{time}Z" for time in table["time"].to_numpy().astype("datetime64[ns]").astype(str)]
    assert times == [row["time"] for row in expected]


@pytest.mark.parametrize("what", ["texts", "attributes"])
def test_texts_survive_as_parquet(cli, start, tmp_path, what):
    """As they are, without what guards them in CSV."""
    parquet = pytest.importorskip("pyarrow.parquet")
    one = start()
    one["texts"].append("=1+1")
    one["note"] = "=1+1"
    one.stop()
    target = tmp_path / "x.parquet"
    words = ["export", one.id, "--what", what, "--path", "texts" if what == "texts" else "note"]
    assert cli(*words, "-o", target).exit_code == 0
    assert parquet.read_table(target).to_pydict()["value"] == ["=1+1"]


def test_what_exists_is_not_written_over(cli, record, tmp_path):
    """Unless that is asked for."""
    run = record()
    target = tmp_path / "x.csv"
    target.write_text("of somebody", encoding="utf-8")
    result = cli("export", run, "-o", target)
    assert result.exit_code == 2
    assert f"{target} exists: nothing was written (write over it with --force)" in result.stderr
    assert target.read_text("utf-8") == "of somebody"
    assert cli("export", run, "-o", target, "--force").exit_code == 0
    assert target.read_text("utf-8") != "of somebody"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [target.name]


def test_the_last_line_says_what_was_written(cli, record, tmp_path):
    """Runs, rows, size, format and place."""
    record(steps=5)
    record(steps=5)
    target = tmp_path / "x.csv"
    told = cli("export", "--all", "-o", target, "--path", "val/*").stderr
    size = target.stat().st_size
    assert f"wrote 2 runs, 10 rows, {size} B of csv to {target}" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--path", "val/los"], "--path val/los: none of the runs has it; did you mean 'val/loss'"),
        (
            ["--path", "val/loss", "--path", "zzz"],
            "--path zzz: none of the runs has it; seamark sh",
        ),
        (["--path", "sys/state"], "no series of numbers is there (--what attributes has what is)"),
        (["--path", "log"], "--path log: no series of numbers is there (--what texts has what is)"),
    ],
)
def test_a_path_that_matches_nothing_is_an_error(cli, start, tmp_path, words, message):
    """Not a lone header; the nearest path is named, and nothing is written."""
    run = start()
    run.log_metrics({"val/loss": 1.0}, step=0)
    run["log"].append("a text")
    run.stop()
    result = cli("export", run.id, *words, "-o", tmp_path / "x.csv")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "x.csv").exists()


def test_a_path_that_one_of_the_runs_has_is_enough(cli, start, record):
    """Runs differ; each pattern has to find something in one of them."""
    run = start()
    run.log_metrics({"other": 1.0}, step=0)
    run.stop()
    record(steps=1)
    found = rows(cli("export", "--all", "--path", "other", "--path", "val/loss").stdout)
    assert {row["path"] for row in found} == {"other", "val/loss"}


@pytest.mark.parametrize("text", ["=cmd()", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_spreadsheet_computes_a_text(cli, start, text):
    """Texts and paths that begin like a formula have an apostrophe in front; numbers have none."""
    run = start()
    run["note"] = text
    run["number"] = -1
    run["log"].append(text)
    run["=path"] = 1
    run.stop()
    attributes = cli("export", run.id, "--what", "attributes").stdout
    found = {
        row["path"]: row["value"] for row in csv.DictReader(io.StringIO(attributes, newline=""))
    }
    assert found["note"] == f"'{text}"
    assert found["number"] == "-1"
    assert found["'=path"] == "1"
    texts = csv.DictReader(io.StringIO(cli("export", run.id, "--what", "texts").stdout, newline=""))
    assert [row["value"] for row in texts] == [f"'{text}"]
    (document,) = strict(cli("export", run.id, "--format", "json").stdout)["runs"]
    assert document["attributes"]["note"]["value"] == text


@pytest.mark.once
@pytest.mark.parametrize("what", ["texts", "attributes"])
def test_a_text_whose_file_is_gone_stops_nothing(cli, start, root, what):
    """Its record stands in its place, and a line on standard error says so."""
    run = start()
    run["log"].append("x" * (5 << 20))
    run["log"].append("a short one")
    run["note"] = "y" * (5 << 20)
    run["other"] = "kept"
    run.wait()
    run.stop()
    blobs = root / "default" / run.id / "blobs"
    for blob in blobs.iterdir():
        blob.unlink()
    result = cli("export", run.id, "--what", what)
    assert result.exit_code == 0, result.stderr
    assert "its record is used instead" in result.stderr
    values = [row["value"] for row in rows(result.stdout)]
    assert ("a short one" if what == "texts" else "kept") in values
    assert any(value.startswith('{"sha256"') for value in values)

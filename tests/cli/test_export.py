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
TEXT = 'quoted "text", with\nlines'
WHEN = datetime(2026, 1, 2, tzinfo=timezone.utc)


@pytest.fixture
def run(start):
    with start(name="odd") as one:
        for step, value in zip(STEPS, VALUES, strict=True):
            one.log_metrics({"loss": value}, step=step)
        one["texts"].append(TEXT, step=0)
        one["parameters"] = {"big": 2**200, "nan": math.nan, "text": "0012", "when": WHEN}
    return one


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_and_json_keep_every_digit_and_type(cli, run):
    found = rows(cli("export", run.id).stdout)
    assert list(found[0]) == ["run", "path", "step", "value", "time", "attempt"]
    expected = sorted(zip(STEPS, VALUES, strict=True), key=lambda pair: pair[0])
    values = [repr(value) for _, value in expected]
    assert [float(row["step"]) for row in found] == [step for step, _ in expected]
    assert [repr(float(row["value"])) for row in found] == values
    assert {(row["run"], row["attempt"], row["time"][-1]) for row in found} == {(run.id, "0", "Z")}
    assert found[1]["step"] == "0"
    attributes = rows(cli("export", run.id, "--what", "attributes").stdout)
    found = {row["path"]: row["value"] for row in attributes}
    assert found["parameters/big"] == str(2**200)
    assert found["parameters/nan"] == "nan"
    assert found["parameters/text"] == "0012"
    assert {row["path"]: row["type"] for row in attributes}["parameters/text"] == "string"
    assert datetime.fromisoformat(found["parameters/when"]) == WHEN
    assert json.loads(found["loss"])["count"] == len(VALUES)
    (text,) = rows(cli("export", run.id, "--what", "texts").stdout)
    assert text["value"] == TEXT
    (document,) = strict(cli("export", run.id, "--format", "json").stdout)["runs"]
    series = document["series"]["loss"]
    assert sorted(series) == ["attempt", "step", "time", "value"]
    assert [repr(float(value)) for value in series["value"]] == values
    assert "nan" in series["value"]
    assert document["texts"]["texts"]["value"] == [TEXT]
    assert document["attributes"]["parameters/big"]["value"] == 2**200


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


def test_queries_and_paths_choose_what_is_exported(cli, record):
    short, long = record(steps=2), record(steps=30)
    found = rows(cli("export", "--query", "train/loss:count > 10").stdout)
    assert {row["run"] for row in found} == {long}
    assert {row["run"] for row in rows(cli("export", "--all").stdout)} == {short, long}
    assert len(strict(cli("export", "--all", "--format", "json").stdout)["runs"]) == 2
    for pattern in ("val", "*al/l*"):
        found = rows(cli("export", short, "--path", pattern).stdout)
        assert {row["path"] for row in found} == {"val/loss"}, pattern
    found = rows(cli("export", "--all", "--path", "train", "--path", "val/loss").stdout)
    assert {row["path"] for row in found} == {"train/loss", "val/loss"}


def test_file_is_complete_or_unchanged(cli, record, tmp_path, monkeypatch):
    run = record()
    target = tmp_path / "out.json"
    assert cli("export", run, "--out", target).exit_code == 0
    before = target.read_text(encoding="utf-8")
    assert strict(before)["runs"]

    def fail(*_, **__):
        raise OSError(28, "no more room")

    monkeypatch.setattr("seamark.cli.export.document_of", fail)
    result = cli("export", run, "--out", target, "--force")
    assert result.exit_code == 1
    assert "no more room" in result.stderr
    assert target.read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.json"]


def test_existing_file_is_overwritten_only_with_force(cli, record, tmp_path):
    run = record(steps=5)
    record(steps=5)
    target = tmp_path / "x.csv"
    target.write_text("of somebody", encoding="utf-8")
    result = cli("export", run, "-o", target)
    assert result.exit_code == 2
    assert f"{target} exists: nothing was written (overwrite it with --force)" in result.stderr
    assert target.read_text("utf-8") == "of somebody"
    told = cli("export", "--all", "-o", target, "--path", "val/*", "--force").stderr
    size = target.stat().st_size
    assert f"wrote 2 runs, 10 rows, {size} B of csv to {target}" in told
    assert target.read_text("utf-8") != "of somebody"
    assert cli("export", run, "-o", tmp_path / "x.dat", "--format", "json").exit_code == 0
    assert strict((tmp_path / "x.dat").read_text("utf-8"))["runs"]
    assert cli("export", run, "-o", tmp_path / "y.CSV").exit_code == 0
    assert (tmp_path / "y.CSV").read_text("utf-8").startswith("run,path,")


def test_without_pyarrow_the_extra_is_named(cli, record, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = cli("export", record(), "-o", tmp_path / "x.parquet")
    assert result.exit_code == 2
    assert 'pip install "seamark[parquet]"' in result.stderr
    assert not (tmp_path / "x.parquet").exists()


def test_parquet_has_the_rows_of_csv_with_their_types(cli, run, start, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with start() as other:
        other["note"] = "=1+1"
        other["loss"].append(0.25)

    def exported(*words):
        target = tmp_path / "x.parquet"
        assert cli("export", *words, "-o", target, "--force").exit_code == 0
        return parquet.read_table(target)

    table = exported("--all")
    types = ["string", "string", "double", "double", "timestamp[ns, tz=UTC]", "int64"]
    assert list(map(str, table.schema.types)) == types
    expected = rows(cli("export", "--all").stdout)
    found = table.to_pydict()
    assert {row["run"] for row in expected} == {run.id, other.id}
    assert found["run"] == [row["run"] for row in expected]
    assert found["path"] == [row["path"] for row in expected]
    assert found["step"] == [float(row["step"]) for row in expected]
    assert list(map(repr, found["value"])) == [row["value"] for row in expected]
    times = [f"{time}Z" for time in table["time"].to_numpy().astype("datetime64[ns]").astype(str)]
    assert times == [row["time"] for row in expected]
    table = exported(other.id, "--what", "attributes", "--path", "note")
    assert table.to_pydict()["value"] == ["=1+1"]  # without an apostrophe in front


def test_texts_like_formulas_have_an_apostrophe_in_csv(cli, start):
    texts = ["=cmd()", "+1", "-1", "@x", "\t=1", "\r=1"]
    with start() as run:
        for at, text in enumerate(texts):
            run[f"note{at}"] = text
            run["log"].append(text)
        run["number"] = -1
        run["=path"] = 1

    def exported(what):
        text = cli("export", run.id, "--what", what).stdout
        return list(csv.DictReader(io.StringIO(text, newline="")))

    found = {row["path"]: row["value"] for row in exported("attributes")}
    assert [found[f"note{at}"] for at in range(6)] == [f"'{text}" for text in texts]
    assert (found["number"], found["'=path"]) == ("-1", "1")
    assert [row["value"] for row in exported("texts")] == [f"'{text}" for text in texts]
    (document,) = strict(cli("export", run.id, "--format", "json").stdout)["runs"]
    assert [document["attributes"][f"note{at}"]["value"] for at in range(6)] == texts

"""A project: tables over its runs, and a log of its own."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from recording import QUIET

from seamark import errors, init_project, init_run


@pytest.fixture
def record(tmp_path):
    def record_one(lr, *, project="team/x", steps=5, **given):
        with init_run(project, root=tmp_path, params={"lr": lr}, **QUIET, **given) as run:
            for step in range(steps):
                run.log_metrics({"train/loss": lr / (step + 1), "train/acc": step * lr}, step=step)
        return run.id

    return record_one


@pytest.fixture
def project(tmp_path):
    with init_project("team/x", root=tmp_path) as opened:
        yield opened


def test_wrong_arguments_are_refused_and_reading_creates_nothing(project, tmp_path):
    table, series = project.fetch_runs_table, project.fetch_series
    for act, given, why in (
        (init_project, {"project": "p", "mode": "onlin"}, "mode: expected one of 'online'"),
        (table, {"progress_bar": "yes"}, "progress_bar: expected True, False"),
        *((series, {"paths": paths}, "paths: expected a p") for paths in ("", [3], [""])),
        (series, {"paths": ["a"], "runs": 7}, "runs: expected run ids"),
    ):
        with pytest.raises(errors.ArgumentError, match=why):
            act(**given)
    with pytest.raises(errors.PathError, match="project"):
        init_project("a//b")
    with pytest.raises(errors.RunNotFoundError, match="no run 'nope' in project 'team/x'"):
        series("a", ["nope"])
    assert len(table()) == 0
    assert list(tmp_path.iterdir()) == []


class TestRunsTable:
    def test_query_sort_limit_and_columns_together(self, project, record):
        ids = [record(lr, tags=["sweep"]) for lr in (0.1, 0.2, 0.3)]
        record(9.0)
        table = project.fetch_runs_table(
            query="parameters/lr < 1",
            tag="sweep",
            columns=["parameters/*", "train/loss:min"],
            sort_by="train/loss:min",
            ascending=True,
            limit=2,
        )
        assert table.columns == ["sys/id", "parameters/lr", "train/loss:min"]
        one = project.fetch_runs_table(columns="parameters/lr")
        assert one.columns == ["sys/id", "parameters/lr"]
        assert [row["sys/id"] for row in table] == ids[:2]
        assert table.rows[0]["train/loss:min"] == 0.1 / 5
        assert table.total == 3

    def test_a_path_that_no_run_has_yet_is_an_empty_column_and_one_warning(
        self, project, record, caplog
    ):
        """A dashboard may be there before the first of them, and asks again and again."""
        run = record(0.1)
        for _ in range(3):
            table = project.fetch_runs_table(
                columns=["val/loss", "parameters/lr"], sort_by="val/f1"
            )
            (row,) = table.to_rows()
            assert row == {"sys/id": run, "parameters/lr": 0.1}
            assert row.get_attribute_value("parameters/lr") == 0.1
            with pytest.raises(ValueError, match="none"):
                row.get_attribute_value("none")
            assert "val/loss" in table.columns
            assert len(project.fetch_runs_table(query="train/los < 1")) == 0
            assert len(project.fetch_series("train/loss", runs="train/los < 1")) == 0
        assert [record.message for record in caplog.records] == [
            "seamark: sort_by: no run has 'val/f1'",
            "seamark: column: no run has 'val/loss'; there is 'train/loss'",
            "seamark: query: no run has 'train/los'; there is 'train/loss'",
        ]

    def test_a_run_that_is_not_there_is_left_out_with_one_warning(self, project, record, caplog):
        run = record(0.1, name="baseline")
        for _ in range(2):
            assert len(project.fetch_runs_table(id="baselin")) == 0
            (row,) = project.fetch_runs_table(id=["baselin", run])
            assert row["sys/id"] == run
        (told,) = [record.message for record in caplog.records]
        assert told.startswith("seamark: id: no run 'baselin' in project 'team/x' below ")
        assert told.endswith("(did you mean 'baseline'?)")

    def test_sub_projects_belong_to_the_table_and_other_projects_do_not(self, project, record):
        inner = record(0.1, project="team/x/y")
        record(0.1, project="team/xy")
        assert [row["sys/id"] for row in project.fetch_runs_table()] == [inner]

    def test_progress_is_told_to_a_function(self, project, record):
        record(0.1)
        told = []
        project.fetch_runs_table(progress_bar=lambda done, total: told.append((done, total)))
        assert told == [(0, 1), (1, 1)]

    def test_runs_are_named_as_everywhere(self, project, record):
        """In whatever holds their names; how runs are found is tested with series."""
        named, unnamed = record(0.1, name="a name"), record(0.2, project="team/x/y")
        record(0.3, project="other", name="outside")
        for run, word in ((named, "team/x/a name"), (unnamed, "latest")):
            for given in (word, [word], iter([word, "nothing"])):
                assert [row["sys/id"] for row in project.fetch_runs_table(id=given)] == [run]
        assert len(project.fetch_runs_table(id=["a name", "latest"])) == 2
        assert len(project.fetch_runs_table(id=["other/outside", "outside", "nothing"])) == 0
        twins = [record(0.1, name="twin") for _ in range(2)]
        several = f"matches 2 runs: .*{twins[1]}.*{twins[0]}"  # the newest first
        with pytest.raises(errors.ArgumentError, match=several):
            project.fetch_runs_table(id="twin")
        with pytest.raises(errors.ArgumentError, match=several):
            project.fetch_series("a", ["twin"])

    def test_without_pandas_the_error_names_the_extra(self, project, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        table = project.fetch_runs_table()
        assert (table.to_numpy().keys(), table.to_rows()) == ({"sys/id"}, [])
        with pytest.raises(errors.MissingExtraError, match=r'pip install "seamark\[pandas\]"'):
            table.to_pandas()


class TestSeries:
    def test_a_text_that_is_a_query_is_one_and_a_name_in_a_list(self, project, record):
        query = "parameters/lr = 0.5"
        named, other = record(0.1, name="a name"), record(0.2, project="team/x/y", name=query)
        for run, word in ((named, "team/x/a name"), (other, other), (other, [query])):
            rows = project.fetch_series("train/loss", word).to_rows()
            assert {row["run"] for row in rows} == {run}, word
        assert len(project.fetch_series("train/loss", query)) == 0
        with pytest.raises(errors.RunNotFoundError, match="no run"):
            project.fetch_series("train/loss", ["a nam"])
        with pytest.raises(errors.QueryError, match="expected an operator"):
            project.fetch_series("train/loss", "a nam")

    def test_one_long_table_of_several_runs_and_paths(self, project, record):
        one, two = record(1.0, steps=2), record(2.0, steps=3)
        everything = project.fetch_series("train/*")
        assert len(everything) == 10
        assert {(part[0], part[1]) for part in everything.parts} == {
            (run, path) for run in (one, two) for path in ("train/loss", "train/acc")
        }
        table = project.fetch_runs_table(id=one)
        for runs in (one, [one], "parameters/lr = 1", table):
            found = project.fetch_series("train/loss", runs).to_rows()
            points = [(row["run"], row["step"], row["value"], row["attempt"]) for row in found]
            assert points == [(one, 0.0, 1.0, 0), (one, 1.0, 0.5, 0)]
        assert found[0].keys() == {"run", "path", "step", "value", "time", "attempt"}

    def test_arrays_and_data_frames_hold_the_same_points(self, project, record):
        pandas = pytest.importorskip("pandas")
        run = record(1.0, steps=3)
        series = project.fetch_series(["train/loss", "train/acc"])
        arrays = series.to_numpy()
        assert arrays["path"].tolist() == ["train/loss"] * 3 + ["train/acc"] * 3
        np.testing.assert_allclose(arrays["value"], [1, 1 / 2, 1 / 3, 0, 1, 2])
        frame = series.to_pandas()
        assert frame["run"].unique().tolist() == [run]
        assert str(frame["time"].dtype) == "datetime64[ns, UTC]"
        assert frame["time"].astype("int64").tolist() == arrays["time"].tolist()
        assert isinstance(frame["path"].dtype, pandas.CategoricalDtype)
        none = project.fetch_series("nothing")
        assert len(none) == 0
        assert list(none.to_pandas().columns) == list(none.to_numpy()) == list(none.columns)

    def test_a_path_that_is_no_series_is_told_once(self, project, record, caplog):
        """Whatever runs are asked for; a series that these runs do not have is no mistake."""
        run = record(0.1)
        with init_run("team/x", root=project.folder.root, **QUIET) as other:
            other["val/loss"].append(1.0)
            other["notes"].append("a text")
        asked = ["train/los", "val/*", "val/loss", "none/*", "parameters/lr", "notes", "train/loss"]
        for given in ({}, {"points": 10}, {"runs": run}):
            assert len(project.fetch_series(asked, **given)) > 0
        assert len(project.fetch_series("val/loss", run)) == 0
        assert [record.message for record in caplog.records] == [
            "seamark: paths: no run has 'train/los'; there is 'train/loss'",
            "seamark: paths: no series of numbers matches 'none/*'",
            "seamark: paths: 'parameters/lr' is a number, not a series of numbers",
            "seamark: paths: 'notes' is a series of texts, not a series of numbers",
        ]


def test_the_log_of_a_project_is_read_back_and_is_no_run(project, tmp_path):
    project["description"] = "digits"
    project["sys/tags"].add(["vision"])
    project.log_metrics({"best": 0.5}, step=1)
    with init_project("team/x", root=tmp_path, mode="read-only") as other:
        assert other["description"].fetch() == "digits"
        assert other["sys/tags"].fetch() == {"vision"}
        assert other["best"].fetch_last() == 0.5
        assert len(other.fetch_runs_table()) == 0
        with pytest.raises(errors.ReadOnlyError, match="project 'team/x'"):
            other["description"] = "letters"
    project.stop()
    project.stop()
    with pytest.raises(errors.InactiveRunError, match="project 'team/x'"):
        project["a"] = 2
    with init_project("other", root=tmp_path, mode="disabled") as disabled:
        disabled["a"] = 1
    assert not (tmp_path / "other").exists()

"""TimeProfiler on real trainers: the contract, the report, and the times in the run."""

from __future__ import annotations

import csv
import importlib
import pickle
import sys
import time
from contextlib import nullcontext

import pytest

from seamark import init_run
from seamark.errors import ArgumentError
from seamark.lightning import ResumeCallback, SeamarkLogger, TimeProfiler


def by_name(profiler):
    return {one.name: one for one in profiler.stats()}


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError, match="expected a Run"):
        TimeProfiler(run="here")
    with pytest.raises(ArgumentError, match="dirpath: expected a path"):
        TimeProfiler(dirpath=5, filename="report")


def test_starting_twice_and_stopping_the_unknown_raise_and_exceptions_pass():
    profiler = TimeProfiler()
    with pytest.raises(ValueError, match=r"stop recording an action \(b\) which was never"):
        profiler.stop("b")
    profiler.start("a")
    with pytest.raises(ValueError, match="Attempted to start a which has already started"):
        profiler.start("a")
    profiler.stop("a")
    mine = RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"), profiler.profile("a"):
        raise mine
    assert by_name(profiler)["a"].count == 2
    assert profiler.current_actions == {}


def test_an_action_inside_another_is_no_time_of_its_own(monkeypatch):
    ticks = iter([0, 1, 21, 22])  # ms: outer begins, inner begins, inner ends, outer ends
    profiler = TimeProfiler()
    with monkeypatch.context() as patched:
        patched.setattr(
            "seamark.lightning._profiler.perf_counter_ns", lambda: next(ticks) * 1_000_000
        )
        with profiler.profile("outer"), profiler.profile("inner"):
            pass
    found = by_name(profiler)
    assert found["outer"].total_s == pytest.approx(0.022)
    assert found["outer"].self_s == pytest.approx(0.002)
    assert found["inner"].self_s == found["inner"].total_s == pytest.approx(0.02)


def test_actions_may_end_in_any_order_and_go_by_pickle():
    profiler = TimeProfiler()
    for act in (profiler.start, profiler.stop):
        for name in ("a", "b"):
            act(name)
    for one in (profiler, pickle.loads(pickle.dumps(profiler))):
        assert {name: stat.count for name, stat in by_name(one).items()} == {"a": 1, "b": 1}


@pytest.mark.parametrize("extended", [True, False])
def test_reports_before_anything_was_timed(extended):
    profiler = TimeProfiler(extended=extended)
    assert profiler.summary().startswith("Profiler Report")
    assert profiler.largest_cost() == "Nothing has been timed yet."
    with profiler.profile("a"):
        pass
    text = profiler.summary()
    assert "Mean (s)" in text
    assert ("Calls" in text) is extended
    assert list(profiler.recorded_durations) == ["a"]


def test_a_training_is_timed_and_recorded(trainer, tiny, logger, read, tmp_path):
    """Series, table and line stand in the run of the trainer's logger, under escaped names."""
    profiler = TimeProfiler(dirpath=tmp_path, filename="report")
    trainer(logger=logger, profiler=profiler, max_epochs=3, limit_train_batches=2).fit(tiny)
    found = by_name(profiler)
    batch = found["run_training_batch"]
    assert batch.count == 6
    assert 0 <= batch.max_epoch <= 2
    assert 0 <= batch.max_iteration <= 5
    recorded = read(logger, "profiling/actions")
    assert recorded["profiling/actions/run_training_batch_s"].value.count >= 2
    assert recorded["profiling/actions/largest_cost"].value.startswith("The largest cost is ")
    assert "profiling/actions/summary" in recorded
    assert any("ModelCheckpoint{'monitor'" in path for path in recorded)
    assert read(logger)["sys/state"].value == "completed"
    text = (tmp_path / "fit-report.txt").read_text()
    assert "FIT Profiler Report" in text
    assert "p95 (s)" in text
    profiler.write_results(tmp_path / "long.csv")
    with (tmp_path / "long.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "run_training_batch"]
    assert [(row["epoch"], row["iteration"]) for row in rows] == [
        ("0", "0"), ("0", "1"), ("1", "2"), ("1", "3"), ("2", "4"), ("2", "5"),
    ]  # fmt: skip


def test_a_report_fits_a_terminal(trainer, tiny, logger, monkeypatch, caplog):
    """The 15 largest totals in 100 columns or those of the terminal, and where the others are."""
    caplog.set_level("INFO")
    profiler = TimeProfiler()
    trainer(logger=logger, profiler=profiler).fit(tiny)
    (text,) = [one.getMessage() for one in caplog.records if "Profiler Report" in one.getMessage()]
    assert all(part in text for part in ("run_training_epoch", "more: ", "The largest cost is "))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for report, columns in ((text, 100), (profiler.digest(), 80)):
        lines = report.splitlines()
        assert max(map(len, lines)) <= columns
        (head,) = (number for number, line in enumerate(lines) if line.endswith("  Action"))
        (end,) = (number for number, line in enumerate(lines) if line.startswith("and "))
        assert end - head - 1 == 15
        assert "profiling/actions/summary" in " ".join(lines)


def test_a_given_run_gets_the_times(trainer, tiny, tmp_path):
    with init_run(root=tmp_path, capture={"git": False, "packages": False}) as run:
        trainer(logger=False, profiler=TimeProfiler(run=run["fold"])).fit(tiny)
        assert run.exists("fold/profiling/actions/run_training_batch_s")


def test_a_failed_fit_can_be_fitted_again(trainer, tiny, logger):
    profiler = TimeProfiler()
    tiny.at_step = lambda module: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(logger=logger, profiler=profiler).fit(tiny)
    tiny.at_step = None
    trainer(logger=logger, profiler=profiler).fit(tiny)
    assert by_name(profiler)["run_training_batch"].count >= 2


def test_slashes_and_control_characters_become_one_part(logger):
    profiler = TimeProfiler(run=logger)
    with profiler.profile("[Callback]a/b 50%\n"), profiler.profile("a\nb \x1b[31m"):
        pass
    profiler.describe()
    assert r"  a\nb \x1b[31m" in profiler.summary()
    run = logger.experiment
    assert run.exists("profiling/actions/[Callback]a%2Fb 50%25%0A_s")
    assert isinstance(logger, SeamarkLogger)


def test_a_report_that_cannot_be_written_is_no_end_of_a_training(trainer, tiny, caplog):
    profiler = TimeProfiler(dirpath="/proc/no", filename="report")
    trainer(logger=False, profiler=profiler).fit(tiny)
    assert tiny.seen == 2
    assert any("report could not be written" in record.getMessage() for record in caplog.records)


def test_a_report_goes_where_a_url_says(trainer, tiny):
    fsspec = pytest.importorskip("fsspec")
    trainer(logger=False, profiler=TimeProfiler("memory://here", "report")).fit(tiny)
    assert fsspec.filesystem("memory").exists("/here/fit-report.txt")


def test_a_stage_without_training_has_a_largest_cost_too(trainer, tiny, logger, read):
    profiler = TimeProfiler()
    trainer(logger=logger, profiler=profiler).predict(tiny)
    line = profiler.largest_cost()
    assert "of the time of all actions" in line
    assert line in profiler.summary()
    recorded = read(logger, "profiling/actions")
    assert recorded["profiling/actions/largest_cost"].value.startswith("The largest cost is ")


def test_rows_of_a_second_training_are_means_of_its_own_times(trainer, tiny, logger):
    profiler = TimeProfiler()
    trainer(logger=logger, profiler=profiler).fit(tiny)
    tiny.at_step = lambda module: time.sleep(0.2)
    second = SeamarkLogger()
    trainer(logger=[logger, second], profiler=profiler).fit(tiny)
    path = "profiling/actions/run_training_batch_s"
    assert sorted(logger.experiment[path].fetch_points().value)[-2] >= 0.2
    assert min(second.experiment[path].fetch_points().value) >= 0.2


def test_times_of_a_training_are_those_of_its_fit(trainer, tiny, logger, read, tmp_path):
    """In the runs of all its loggers; later stages and a trainer without a logger add nothing."""
    profiler = TimeProfiler(dirpath=tmp_path, filename="report")
    loggers = [logger, SeamarkLogger()]
    one = trainer(logger=loggers, profiler=profiler)
    one.fit(tiny)
    path = "profiling/actions/run_training_batch_s"
    before = profiler.largest_cost(), logger.experiment[path].fetch_points().value.tolist()
    one.validate(tiny, verbose=False)
    one.test(tiny, verbose=False)
    one.predict(tiny)
    assert {path.name for path in tmp_path.iterdir()} >= {"fit-report.txt", "validate-report.txt"}
    assert read(logger)["sys/state"].value == "completed"
    for each in loggers:
        assert each.experiment.exists(path)
        assert each.experiment.exists("profiling/actions/summary")
    assert profiler.largest_cost() == before[0]
    trainer(logger=False, profiler=profiler).fit(tiny)
    assert logger.experiment[path].fetch_points().value.tolist() == before[1]


@pytest.mark.parametrize("batches", [False, True])
def test_memory_is_bounded_long_before_an_action_was_called_65536_times(batches):
    """While batches run and without them."""
    profiler = TimeProfiler()
    calls, most = (20_000, 8_192) if batches else (100_000, 16_384)
    for _ in range(calls):
        with profiler.profile("run_training_batch") if batches else nullcontext():  # noqa: SIM117
            with profiler.profile("a"):
                pass
    assert len(profiler._actions["a"].waiting) <= 20_000
    assert by_name(profiler)["a"].count == calls
    assert all(len(times) <= most for times in profiler.recorded_durations.values())


def test_a_report_says_what_lightnings_own_says(host, trainer, tiny, tmp_path):
    """The same actions and calls, for the same training."""
    simple = importlib.import_module(f"{host.__name__}.profilers").SimpleProfiler()
    ours = TimeProfiler()
    trainer(logger=False, profiler=simple).fit(tiny)
    trainer(logger=False, profiler=ours).fit(tiny)
    calls = {name: len(times) for name, times in simple.recorded_durations.items()}
    assert {name: len(times) for name, times in ours.recorded_durations.items()} == calls
    text, theirs = ours.summary(), simple.summary()
    assert all(name in text for name in calls)
    assert text.splitlines()[0] == theirs.splitlines()[0] == "FIT Profiler Report"


def test_the_times_of_a_resumed_training_go_where_its_logger_goes(trainer, tiny, logger, tmp_path):
    """The run is another one from when the checkpoint is loaded, which is after the setup."""
    one = trainer(logger=logger, callbacks=[ResumeCallback()])
    one.fit(tiny)
    one.save_checkpoint(str(tmp_path / "here.ckpt"))
    second = SeamarkLogger()
    was = second.version
    profiler = TimeProfiler()
    resuming = trainer(logger=second, profiler=profiler, max_epochs=2, callbacks=[ResumeCallback()])
    resuming.fit(tiny, ckpt_path=str(tmp_path / "here.ckpt"))
    assert second.version == logger.version != was
    assert second.experiment.exists("profiling/actions/run_training_batch_s")

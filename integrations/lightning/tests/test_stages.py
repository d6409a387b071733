"""Training with the logger is training without it, and every stage leaves its mark."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
from pathlib import Path

import pytest

import seamark
from seamark.journal.headers import header_of
from seamark.journal.reader import JournalReader, decode_json
from seamark.lightning import ResumeCallback, SeamarkLogger

OP = 2


def state_of(read, logger):
    return read(logger)["sys/state"].value


def test_fit_records_what_was_logged(host, trainer, tiny, logger, read):
    """Metrics with Lightning's step, its epoch, hyperparameters, status and version.

    ``self.logger.experiment`` is the Run, with all its verbs; and a logger that has trained goes by
    pickle, as one that has not.
    """

    class Data(host.LightningDataModule):
        def __init__(self, batch_size=4):
            super().__init__()
            self.save_hyperparameters()

        train_dataloader = val_dataloader = lambda self: tiny.loader()

    def at_step(module):
        module.logger.experiment["own/series"].append(module.seen, step=module.global_step)
        module.logger.experiment["own"]["best"] = {"loss": 0.5}

    tiny.at_step = at_step
    fit = trainer(logger=logger, max_epochs=2)
    assert pickle.loads(pickle.dumps(fit)).logger.version == logger.version
    fit.fit(tiny, datamodule=Data())
    run = logger.experiment
    assert [float(step) for step in run["training/train/loss"].fetch_points().step] == [0, 1, 2, 3]
    assert list(run["training/val/loss"].fetch_points().step) == [1, 3]
    found = read(logger)
    assert found["own/series"].value.count == 4
    expected = {"own/best/loss": 0.5, "training/hyperparams/width": 2, "training/status": "success",
                "training/hyperparams/batch_size": 4, "sys/state": "completed"}  # fmt: skip
    assert {path: found[path].value for path in expected} == expected
    assert found["training/epoch"].family == "float_series"
    assert found["source_code/integrations/pytorch-lightning"].value
    other = pickle.loads(pickle.dumps(fit.logger))
    other.log_metrics({"acc": 1.0}, step=9)
    found = read(other)
    assert found["training/acc"].value.last == 1.0
    assert found["training/train/loss"].value.count == 4


def test_settings_of_the_trainer_are_recorded(trainer, tiny, logger, read):
    """Those that have an influence on the training, as they are, once for each change."""
    given = {"max_epochs": 1, "gradient_clip_val": 0.5, "gradient_clip_algorithm": "norm",
             "accumulate_grad_batches": 2, "limit_val_batches": 1}  # fmt: skip
    made = trainer(logger=logger, **given)
    made.validate(tiny, verbose=False)
    assert not [path for path in read(logger) if path.startswith("training/trainer/")]
    made.fit(tiny)
    told = logger.experiment["training/trainer"].fetch()
    others = {"max_steps": -1, "deterministic": False, "log_every_n_steps": 1}
    assert (given | others).items() <= told.items()
    assert not told.keys() & logger.experiment["distributed"].fetch().keys() - {
        "accumulate_grad_batches"
    }
    made.fit_loop.max_epochs = 2
    made.fit(tiny)
    assert logger.experiment["training/trainer/max_epochs"].fetch() == 2
    written = b"".join(one.path.read_bytes() for one in logger.experiment.folder.journals())
    assert written.count(b"training/trainer/max_epochs") == 2
    assert written.count(b"training/trainer/gradient_clip_val") == 1
    assert not logger.experiment.exists("training/config")


def test_a_trainer_that_logs_no_hyperparameters(host, trainer, tiny, logger):
    """``enable_autolog_hparams=False`` (2.6) is about them; what else a stage begins with stays."""
    if "enable_autolog_hparams" not in inspect.signature(host.Trainer).parameters:
        return
    made = trainer(logger=logger, enable_autolog_hparams=False)
    made.fit(tiny)
    made.test(tiny, verbose=False)
    run = logger.experiment
    assert run["training/trainer/max_epochs"].fetch() == 1
    assert run["distributed/world_size"].fetch() == 1
    assert not run.exists("training/hyperparams")
    assert run["sys/state"].fetch() == "completed"


def test_all_stages_go_to_one_run(trainer, tiny, logger, read):
    """fit, validate, test, predict and another fit; while one runs, the run does."""
    seen = []
    tiny.on_test_start = lambda: seen.append(logger.experiment.state)
    fit = trainer(logger=logger)
    fit.fit(tiny)
    for stage in (fit.validate, fit.test):
        stage(tiny, verbose=False)
        assert state_of(read, logger) == "completed"
    fit.predict(tiny)
    assert seen == ["running"]
    fit.fit_loop.max_epochs = 2
    fit.fit(tiny)
    found = read(logger)
    assert found["training/test/loss"].value.count == 1
    assert found["training/train/loss"].value.count == 4
    headers = [header_of(each.path) for each in logger.experiment.folder.journals()]
    assert [one["continues"] for one in headers].count(None) == 1


def test_logging_after_finalize(trainer, tiny, logger, read):
    """The run stays open; what comes later is recorded."""
    trainer(logger=logger).fit(tiny)
    logger.log_metrics({"later": 1.0}, step=100)
    assert state_of(read, logger) == "running"
    logger.experiment["note"] = "looks good"
    logger.log_model_summary(tiny)
    logger.experiment.stop()
    fit = trainer(logger=logger)
    fit.test(tiny, verbose=False)  # whoever stops the run loses records, not the stage
    assert fit.callback_metrics["test/loss"] is not None
    found = read(logger)
    assert {"training/later", "note", "training/model/summary"} <= set(found)
    assert "training/test/loss" not in found
    assert found["sys/state"].value == "completed"


def test_failure_is_recorded_and_passed_on(trainer, tiny, helpers, logger, read):
    """The exception reaches the caller as it is; whoever tries again has a run that succeeds."""
    tiny.at_step = lambda module: module.seen == 1 and 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(logger=logger).fit(tiny)
    assert state_of(read, logger) == "failed"
    assert read(logger)["training/status"].value == "failed"
    logger.log_metrics({"later": 1.0}, step=100)
    assert state_of(read, logger) == "failed"
    trainer(logger=logger).fit(helpers.module_class()())
    assert state_of(read, logger) == "completed"


def interrupt(module):
    raise KeyboardInterrupt


def test_ctrl_c(host, trainer, tiny, logger, read):
    """Lightning ends the process (2.x) or the fit (1.9); the run is interrupted."""
    outcomes = []
    for given in (False, logger):
        tiny.at_step = interrupt
        try:
            trainer(logger=given).fit(tiny)
            outcomes.append("returned")
        except SystemExit as exit_:
            outcomes.append(exit_.code)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    assert outcomes[0] == outcomes[1]
    assert state_of(read, logger) == "interrupted"


def test_fit_anew_after_ctrl_c_is_another_attempt(trainer, helpers, logger, read):
    """Its steps overlap those of the first; the attempt tells them apart, and nothing is hidden."""
    numbers = []
    for at in (1, 1, None):
        model = helpers.module_class()()
        if at is not None:
            model.at_step = lambda module, at=at: module.seen == at and interrupt(module)
        try:
            trainer(logger=logger, log_every_n_steps=1).fit(model)
        except SystemExit:
            pass
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        points = logger.experiment["training/train/loss"].fetch_points()
        numbers.append(sorted(set(points.attempt.tolist())))
    assert numbers == [[0], [0, 1], [0, 1, 2]]
    assert points.step.tolist().count(0) == 3
    assert state_of(read, logger) == "completed"


def test_requeue_suspends(trainer, tiny, logger, read):
    """SLURM continues the run later; steps until the end of the job do not revive it."""
    logger.log_metrics({"loss": 1.0}, step=0)
    logger.finalize("finished")
    logger.log_metrics({"loss": 1.0}, step=1)
    assert state_of(read, logger) == "suspended"


def test_same_callbacks_and_checkpoints_as_without(host, trainer, helpers, logger):
    """No hook more or less, and the same weights."""
    states = ("on_save_checkpoint", "on_load_checkpoint")

    class Recorder(host.callbacks.Callback):
        def __init__(self):
            self.hooks = []

        def __getattribute__(self, name):
            if name.startswith("on_") and name not in states:
                object.__getattribute__(self, "hooks").append(name)
            return object.__getattribute__(self, name)

    def train(given, folder):
        host.seed_everything(1)
        callback = Recorder()
        saver = host.callbacks.ModelCheckpoint(dirpath=folder, monitor="val/loss", save_last=True)
        fit = trainer(logger=given or False, max_epochs=2, callbacks=[callback, saver])
        model = helpers.module_class()()
        fit.fit(model)
        fit.test(model, verbose=False)
        names = sorted(path.name for path in Path(folder).iterdir())
        return callback.hooks, names, [weight.tolist() for weight in model.parameters()]

    assert train(None, "without") == train(logger, "with")


def test_several_loggers_side_by_side(host, trainer, tiny, read):
    """Each records the whole training; the first decides where checkpoints go."""
    loggers = [SeamarkLogger(), SeamarkLogger(prefix="b"), host.loggers.CSVLogger("csv")]
    trainer(logger=loggers).fit(tiny)
    assert read(loggers[0])["training/train/loss"].value.count == 2
    assert read(loggers[1])["b/train/loss"].value.count == 2
    assert read(loggers[1])["b/model/checkpoints/epoch=0-step=2"].family == "file"


def test_subclass_is_told_every_metric(trainer, tiny, read):
    class Telling(SeamarkLogger):
        def __init__(self, **given):
            super().__init__(**given)
            self.history = []

        def log_metrics(self, metrics, step):
            super().log_metrics(metrics, step)
            self.history.append((step, sorted(metrics)))

    logger = Telling()
    fit = trainer(logger=logger)
    fit.fit(tiny)
    fit.test(tiny, verbose=False)
    assert logger.history == [
        (0, ["epoch", "train/loss"]),
        (1, ["epoch", "train/loss"]),
        (1, ["epoch", "val/loss", "val/other"]),
        (2, ["epoch", "test/loss"]),
    ]


@pytest.mark.filterwarnings("ignore")
def test_root_that_cannot_be_written_holds_no_checkpoints_either(host, trainer, tiny, caplog):
    """They go into the current folder, and one line says so."""
    Path("file").touch()
    saver = host.callbacks.ModelCheckpoint(save_last=True)
    fit = trainer(logger=SeamarkLogger(root="file/below"), callbacks=[saver])
    fit.fit(tiny)
    assert fit.global_step == 2
    assert Path(saver.last_model_path).is_file()
    told = [one.getMessage() for one in caplog.records if one.name == "seamark"]
    assert len([line for line in told if "another folder" in line]) == 1, told


def test_two_loggers_of_one_run_complete_it_once(trainer, tiny):
    run, states = seamark.init_run(), []
    trainer(logger=[SeamarkLogger(run=run[name]) for name in ("a", "b")]).fit(tiny)
    run.stop()
    for journal in run.folder.journals():
        with JournalReader(journal.path) as reader:
            ops = [(one.t, decode_json(one.payload)) for one in reader.frames() if one.kind == OP]
        states += [(t, op["state"]) for t, op in ops if op["op"] == "state"]
    assert [state for _, state in sorted(states)] == ["running", "completed"]


def test_other_logger_that_fails_to_finalize(host, trainer, tiny, logger, read):
    """Lightning tells no logger behind it how the stage ended; the callback does."""

    class Broken(host.loggers.CSVLogger):
        def finalize(self, status):
            msg = f"finalize {status}"
            raise OSError(msg)

    with pytest.raises(OSError, match="finalize"):
        trainer(logger=[logger, Broken("csv")]).test(tiny)
    fit = trainer(logger=[Broken("csv"), logger], callbacks=[ResumeCallback()])
    with pytest.raises(OSError, match="finalize"):
        fit.fit(tiny)
    assert state_of(read, logger) == "failed"
    assert read(logger)["training/status"].value == "failed"


@pytest.mark.parametrize("again", [False, True])
def test_start_that_is_refused_leaves_the_run_alone(trainer, helpers, read, again):
    """What fails before a stage begins is no part of a run that others recorded."""
    if again:
        first = SeamarkLogger(custom_run_id="one")
        trainer(logger=first).fit(helpers.module_class()())
        first.experiment.stop()
    logger = SeamarkLogger(custom_run_id="one")
    model = helpers.module_class()()
    model.setup = lambda stage: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer(logger=logger).fit(model)
    assert state_of(read, logger) == ("completed" if again else "failed")
    assert len(logger.own_run.folder.journals()) == 1


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_stages_without_a_fit(trainer, tiny, logger, read, stage):
    given = {} if stage == "predict" else {"verbose": False}
    getattr(trainer(logger=logger), stage)(tiny, **given)
    assert state_of(read, logger) == "completed"


def test_fast_dev_run_records_nothing(trainer, tiny, logger):
    trainer(logger=logger, fast_dev_run=True).fit(tiny)
    assert not list(os.scandir("."))

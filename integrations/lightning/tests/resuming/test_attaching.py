"""A trainer with a Seamark logger resumes its run by itself; other trainers are left alone."""

from __future__ import annotations

import gc
import sys
import weakref
from importlib.metadata import entry_points

import pytest
import torch
from steady import attempts, runs, steps, tiny_class

from seamark.integrations.lightning_callbacks import make_callbacks
from seamark.lightning import ResumeCallback, SeamarkLogger


@pytest.fixture
def model(host):
    return tiny_class(host)


def kinds(trainer):
    return [type(one).__name__ for one in trainer.callbacks]


def test_trainers_without_a_seamark_logger_get_nothing(host, model, trainer, monkeypatch):
    """Though `seamark.lightning` is imported: no callback, no key in a checkpoint."""
    # Loggers of other tests may be alive.
    monkeypatch.setattr("seamark.lightning._resume.LOGGERS", weakref.WeakSet())
    mine = host.callbacks.EarlyStopping("val")
    made = trainer(logger=host.loggers.CSVLogger("csv"), callbacks=[mine], default_root_dir="own")
    before = kinds(made)
    made.fit(model())
    made.save_checkpoint("own.ckpt")
    assert kinds(made) == before
    of_1_9 = "GradientAccumulationScheduler"
    assert [one for one in before if one != of_1_9] == ["EarlyStopping", "ModelCheckpoint"]
    assert "seamark" not in torch.load("own.ckpt", weights_only=False)


@pytest.mark.parametrize("how", ["constructor", "list", "setter", "subclass", "given"])
def test_trainers_with_one_get_one(host, model, trainer, how):
    """Whichever way the logger comes to them, and before all other callbacks."""

    class Own(SeamarkLogger):
        @property
        def experiment(self):
            return super().experiment

    logger = Own() if how == "subclass" else SeamarkLogger()
    given = {"list": [logger], "setter": False}.get(how, logger)
    callbacks = [host.callbacks.EarlyStopping("val"), *([ResumeCallback()] * (how == "given"))]
    made = trainer(logger=given, callbacks=callbacks)
    count = 1 + (how == "given")
    assert kinds(made).count("ResumeCallback") == count
    if how == "setter":
        made.logger = logger
    for _ in range(2):
        made.fit(model())
        assert kinds(made).index("ResumeCallback") == 0
        assert kinds(made).count("ResumeCallback") == count
    assert isinstance(made.callbacks[0], host.callbacks.Callback)


def test_a_trainer_that_was_made_before_its_logger(host, model, trainer, caplog):
    """Its checkpoints name the run; if it loads one, a warning says that the run is a new one."""
    gc.collect()
    made = trainer(logger=False)
    made.logger = SeamarkLogger()
    made.fit(model())
    made.save_checkpoint("one.ckpt")
    made.logger.experiment.stop()
    assert "seamark" in torch.load("one.ckpt", weights_only=False)
    again = trainer(logger=False, max_epochs=2)
    again.callbacks = [one for one in again.callbacks if not isinstance(one, ResumeCallback)]
    again.logger = SeamarkLogger()
    again.fit(model(), ckpt_path="one.ckpt")
    assert "loaded without a ResumeCallback" in caplog.text
    assert len(runs()) == 2


def test_the_entry_point_never_raises(monkeypatch):
    """It stands in the constructor of every Trainer, ours or not."""
    monkeypatch.setitem(sys.modules, "seamark.lightning._resume", object())
    assert make_callbacks() == []
    monkeypatch.delitem(sys.modules, "seamark.lightning._resume")
    assert make_callbacks() == []
    names = (
        f"{package}.callbacks_factory" for package in ("lightning.pytorch", "pytorch_lightning")
    )
    for name in names:
        assert [one.load() for one in entry_points(group=name, name="seamark")][:1] == [
            make_callbacks
        ]


def test_a_logger_behind_another_resumes(host, model, trainer, caplog):
    """The folder of checkpoints is that of the other one."""

    def train(epochs, **how):
        loggers = [host.loggers.CSVLogger("csv"), SeamarkLogger()]
        made = trainer(logger=loggers, max_epochs=epochs, callbacks=callbacks())
        made.fit(model(), **how)
        loggers[1].experiment.stop()

    def callbacks():
        return [host.callbacks.ModelCheckpoint(dirpath="kept", save_last=True)]

    train(1)
    assert "seamark" in torch.load("kept/last.ckpt", weights_only=False)
    train(2, ckpt_path="kept/last.ckpt")
    (run,) = runs().values()
    assert attempts(run) == [0, 1]
    assert steps(run) == list(range(8))


@pytest.mark.parametrize("finder", ["scale_batch_size", "LearningRateFinder"])
def test_finders_of_a_rate_or_a_size_begin_no_attempt(host, model, trainer, finder):
    """It saves, tries out and puts back; nothing was resumed."""

    class Searched(model):
        def __init__(self):
            super().__init__()
            self.lr, self.batch_size = 0.01, 2

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(torch.ones(16, 4))
            return torch.utils.data.DataLoader(data, batch_size=self.batch_size)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=self.lr)

    logger, module = SeamarkLogger(), Searched()
    if finder == "scale_batch_size":
        made = trainer(logger=logger)
        tuner = made.tuner if host.__version__.startswith("1.") else host.tuner.Tuner(made)
        tuner.scale_batch_size(module, max_trials=2)
    else:
        callback = host.callbacks.LearningRateFinder(num_training_steps=4)
        made = trainer(logger=logger, callbacks=[callback])
    made.fit(module)
    logger.experiment.stop()
    (run,) = runs().values()
    assert attempts(run) == [0]
    assert steps(run) == list(range(made.global_step))

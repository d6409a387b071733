"""A trainer with a Seamark logger resumes its run by itself; other trainers are left alone."""

from __future__ import annotations

import pytest
import torch
from steady import attempts, runs, steps, tiny_class

from seamark.lightning import ResumeCallback, SeamarkLogger


@pytest.fixture
def model(host):
    return tiny_class(host)


def kinds(trainer):
    return [type(one).__name__ for one in trainer.callbacks]


def test_trainers_without_a_seamark_logger_get_nothing(host, model, trainer):
    """Though `seamark.lightning` is imported: no callback, no key in a checkpoint."""
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
def test_trainers_with_one_get_one_when_a_stage_begins(host, model, trainer, how):
    """Whichever way the logger comes to them, once, and before all others."""

    class Own(SeamarkLogger):
        @property
        def experiment(self):
            return super().experiment

    logger = Own() if how == "subclass" else SeamarkLogger()
    given = {"list": [logger], "setter": False}.get(how, logger)
    callbacks = [host.callbacks.EarlyStopping("val"), *([ResumeCallback()] * (how == "given"))]
    made = trainer(logger=given, callbacks=callbacks)
    assert kinds(made).count("ResumeCallback") == (how == "given")
    if how == "setter":
        made.logger = logger
    for _ in range(2):
        made.fit(model())
        assert kinds(made).index("ResumeCallback") == 0
        assert kinds(made).count("ResumeCallback") == 1
    assert isinstance(made.callbacks[0], host.callbacks.Callback)


def test_a_logger_behind_another_resumes(host, model, trainer, caplog):
    """Or, with 1.9, which does not read anything of it before, says what to do."""

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
    if host.__version__.startswith("1."):
        assert "ResumeCallback" in caplog.text
        return
    (run,) = runs().values()
    assert attempts(run) == [0, 1]
    assert steps(run) == list(range(8))
    assert "ResumeCallback" not in caplog.text


FINDERS = ["lr_find", "scale_batch_size", "LearningRateFinder", "BatchSizeFinder"]


@pytest.mark.parametrize("finder", FINDERS)
def test_what_looks_for_a_rate_or_a_size_begins_no_attempt(host, model, trainer, finder):
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

    made, logger, module = None, SeamarkLogger(), Searched()
    few = {"LearningRateFinder": {"num_training_steps": 4}, "lr_find": {"num_training": 4}}
    few |= {key: {"max_trials": 2} for key in ("BatchSizeFinder", "scale_batch_size")}
    if finder in ("lr_find", "scale_batch_size"):
        made = trainer(logger=logger)
        tuner = made.tuner if host.__version__.startswith("1.") else host.tuner.Tuner(made)
        getattr(tuner, finder)(module, **few[finder])
    else:
        callback = getattr(host.callbacks, finder)(**few[finder])
        made = trainer(logger=logger, callbacks=[callback])
    made.fit(module)
    logger.experiment.stop()
    (run,) = runs().values()
    assert attempts(run) == [0]
    assert steps(run) == list(range(made.global_step))

"""Callbacks on real trainers: what they record, with our logger, another one, and none."""

from __future__ import annotations

import importlib
import math

import pytest
import torch

from seamark.errors import ArgumentError
from seamark.lightning import DeviceMemory, GradientNorms, LearningRates, StepTimes

ALL = [LearningRates, GradientNorms, StepTimes, DeviceMemory]


def steps(run, path):
    return run[path].fetch_points().step.tolist()


def values(run, path):
    return run[path].fetch_points().value.tolist()


@pytest.mark.parametrize("norm", [0, -1, "2", None])
def test_norms_are_numbers_above_zero(norm):
    with pytest.raises(ArgumentError, match="norm_type"):
        GradientNorms(norm)


@pytest.mark.parametrize("size", [0, 1.5, "4"])
def test_batch_sizes_are_whole_numbers(size):
    with pytest.raises(ArgumentError, match="batch_size"):
        StepTimes(size)


def test_learning_rates_of_every_group(host, helpers, trainer, logger):
    class Two(helpers.module_class()):
        def configure_optimizers(self):
            groups = [{"params": [self.layer.weight]}, {"params": [self.layer.bias], "lr": 0.01}]
            optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    callback = LearningRates(momentum=True, weight_decay=True)
    trainer(logger=logger, callbacks=[callback], max_epochs=2).fit(Two())
    run = logger.experiment
    assert values(run, "training/lr-SGD/pg1") == [0.1, 0.1, 0.05, 0.05]
    assert values(run, "training/lr-SGD/pg2")[0] == 0.01
    assert steps(run, "training/lr-SGD/pg1") == [0, 1, 2, 3]
    assert set(values(run, "training/lr-SGD/pg1-momentum")) == {0.9}
    assert set(values(run, "training/lr-SGD/pg1-weight_decay")) == {0.0}


@pytest.mark.parametrize("norm", [2.0, math.inf, 1])
def test_gradient_norms_are_those_before_clipping(tiny, trainer, logger, norm):
    seen = []
    plain = tiny.configure_gradient_clipping

    def clipping(*args, **kwargs):
        gradients = torch.cat([weight.grad.flatten() for weight in tiny.parameters()])
        seen.append(float(torch.linalg.vector_norm(gradients, norm)))
        return plain(*args, **kwargs)

    tiny.configure_gradient_clipping = clipping
    callback = GradientNorms(norm, per_parameter=True)
    trainer(logger=logger, callbacks=[callback], gradient_clip_val=1e-3).fit(tiny)
    run = logger.experiment
    assert values(run, "training/grad_norm") == pytest.approx(seen)
    assert len(values(run, "training/grad_norm/layer/weight")) == 2


def test_step_times_come_with_samples_and_an_end(tiny, trainer, logger):
    one = trainer(logger=logger, callbacks=[StepTimes()], max_epochs=3)
    one.fit(tiny)
    run = logger.experiment
    assert len(values(run, "profiling/step_time_s")) == 6
    assert all(value > 0 for value in values(run, "profiling/step_time_s"))
    rates = zip(values(run, "profiling/samples_per_second"), values(run, "profiling/step_time_s"),
                strict=True)  # fmt: skip
    assert all(rate == pytest.approx(4 / time) for rate, time in rates)
    assert values(run, "profiling/eta_s")[-1] == 0
    assert all(value > 0 for value in values(run, "profiling/eta_s")[:-1])
    assert len(values(run, "profiling/epoch_time_s")) == 3


def test_no_end_is_told_where_none_is_known(tiny, trainer, logger):
    def stop(module):
        module.trainer.should_stop = module.trainer.global_step >= 3

    tiny.at_step = stop
    trainer(logger=logger, callbacks=[StepTimes(batch_size=7)], max_epochs=-1).fit(tiny)
    assert not logger.experiment.exists("profiling/eta_s")
    assert logger.experiment.exists("profiling/samples_per_second")


def test_memory_of_the_process(tiny, trainer, logger):
    trainer(logger=logger, callbacks=[DeviceMemory()]).fit(tiny)
    sizes = values(logger.experiment, "profiling/memory/host_rss_bytes")
    assert len(sizes) == 2
    assert min(sizes) > 1 << 20


def test_only_logged_steps_are_recorded(tiny, trainer, logger):
    callbacks = [cls() for cls in ALL]
    one = trainer(logger=logger, callbacks=callbacks, max_epochs=4, log_every_n_steps=3)
    one.fit(tiny)
    run = logger.experiment
    assert steps(run, "training/lr-SGD") == [0, 3, 6]
    assert steps(run, "profiling/step_time_s") == [3, 6]
    assert not run.exists("monitoring/seamark/dropped")


@pytest.mark.parametrize("cls", ALL)
def test_each_is_usable_without_a_logger_and_with_another(cls, host, tiny, trainer, tmp_path):
    trainer(logger=False, callbacks=[cls()]).fit(tiny)
    loggers = importlib.import_module(f"{host.__name__}.loggers")
    trainer(logger=loggers.CSVLogger(tmp_path), callbacks=[cls()]).fit(tiny)
    text = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()[0]
    assert any(word in text for word in ("lr-SGD", "grad_norm", "step_time_s", "host_rss_bytes"))


@pytest.mark.parametrize("cls", ALL)
def test_a_broken_logger_does_not_end_training(cls, host, tiny, trainer, tmp_path, caplog):
    class Broken(importlib.import_module(f"{host.__name__}.loggers").CSVLogger):
        def log_metrics(self, metrics, step=None):
            if not any(name.startswith(("train", "val", "epoch")) for name in metrics):
                raise OSError(28, "full")

    trainer(logger=Broken(tmp_path), callbacks=[cls()]).fit(tiny)
    assert tiny.seen == 2
    assert len([r for r in caplog.records if "records nothing" in r.getMessage()]) == 1

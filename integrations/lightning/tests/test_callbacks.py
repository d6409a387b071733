"""Callbacks on real trainers: what they record, with our logger, another one, and none."""

from __future__ import annotations

import csv
import itertools
import math

import pytest
import torch

from seamark.errors import ArgumentError
from seamark.lightning import DeviceMemory, GradientNorms, LearningRates, StepTimes

ALL = [LearningRates, GradientNorms, StepTimes, DeviceMemory]
PATHS = [
    "training/lr-SGD",
    "training/grad_norm",
    "profiling/step_time_s",
    "profiling/memory/host_rss_bytes",
]


def steps(run, path):
    return run[path].fetch_points().step.tolist()


def values(run, path):
    return run[path].fetch_points().value.tolist()


def check_rates(run, batch_size):
    times = values(run, "profiling/step_time_s")
    rates = values(run, "profiling/samples_per_second")
    assert rates == pytest.approx([batch_size / time for time in times])


@pytest.mark.parametrize(
    ("cls", "given", "name"),
    [*((GradientNorms, norm, "norm_type") for norm in (0, -1, "2", None)),
     *((StepTimes, size, "batch_size") for size in (0, 1.5, "4"))],
)  # fmt: skip
def test_wrong_arguments_are_refused(cls, given, name):
    with pytest.raises(ArgumentError, match=name):
        cls(given)


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


@pytest.mark.parametrize("norm", [2.0, math.inf])
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
    trainer(logger=logger, callbacks=[StepTimes()], max_epochs=3).fit(tiny)
    run = logger.experiment
    assert len(values(run, "profiling/step_time_s")) == 6
    assert min(values(run, "profiling/step_time_s")) > 0
    check_rates(run, 4)
    *others, last = values(run, "profiling/eta_s")
    assert last == 0 < min(others)
    assert steps(run, "profiling/epoch_time_s") == [1, 3, 5]  # as Lightning's own of an epoch


def test_the_end_of_a_validation_is_no_part_of_a_step(
    host, tiny, trainer, logger, tmp_path, monkeypatch
):
    """A checkpoint that is saved then, whose callback Lightning calls after all others."""
    now = 0.0

    def clock():
        nonlocal now
        now += 1
        return now

    class Saving(host.callbacks.ModelCheckpoint):
        def on_validation_end(self, *args):
            nonlocal now
            super().on_validation_end(*args)
            now += 1000

    monkeypatch.setattr("seamark.lightning._callbacks.perf_counter", clock)
    callbacks = [StepTimes(), Saving(str(tmp_path))]
    trainer(logger=logger, callbacks=callbacks, val_check_interval=1, max_epochs=2).fit(tiny)
    took = values(logger.experiment, "profiling/step_time_s")
    assert len(took) == 4
    assert max(took) < 1000 < now


def test_no_end_is_told_where_none_is_known(tiny, trainer, logger):
    def stop(module):
        module.trainer.should_stop = module.trainer.global_step >= 3

    tiny.at_step = stop
    trainer(logger=logger, callbacks=[StepTimes(batch_size=7)], max_epochs=-1).fit(tiny)
    assert not logger.experiment.exists("profiling/eta_s")
    assert logger.experiment.exists("profiling/samples_per_second")


def test_callbacks_work_without_a_logger_and_with_another(host, tiny, trainer, tmp_path):
    trainer(logger=False, callbacks=[cls() for cls in ALL]).fit(tiny)
    trainer(logger=host.loggers.CSVLogger(tmp_path), callbacks=[cls() for cls in ALL]).fit(tiny)
    text = next(tmp_path.rglob("metrics.csv")).read_text().splitlines()[0]
    assert all(word in text for word in ("lr-SGD", "grad_norm", "step_time_s", "host_rss_bytes"))


def test_a_broken_logger_takes_nothing_from_training_or_other_loggers(
    host, tiny, trainer, logger, tmp_path, caplog
):
    class Broken(host.loggers.CSVLogger):
        def log_metrics(self, metrics, step=None):
            if not any(name.startswith(("train", "val", "epoch")) for name in metrics):
                raise OSError(28, "full")

    trainer(logger=[Broken(tmp_path), logger], callbacks=[cls() for cls in ALL]).fit(tiny)
    assert tiny.seen == 2
    for path in PATHS:
        assert steps(logger.experiment, path) == [0, 1]
    assert min(values(logger.experiment, "profiling/memory/host_rss_bytes")) > 1 << 20
    assert len([r for r in caplog.records if "records nothing" in r.getMessage()]) == len(ALL)


def test_learning_rates_are_named_and_numbered_as_lightnings_monitor_does(
    host, helpers, trainer, logger, tmp_path
):
    """Names, values and steps, with schedulers that have names, groups, and several of a kind."""
    sgd, step_lr = torch.optim.SGD, torch.optim.lr_scheduler.StepLR

    class Many(helpers.module_class()):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.log("train/loss", self(batch[0]).sum())

        def configure_optimizers(self):
            weight, bias = [{"params": [self.layer.weight]}], [{"params": [self.layer.bias]}]
            both = [
                {"params": [self.layer.weight], "name": "body"},
                {"params": [self.layer.bias]},
            ]
            optimizers = [
                sgd(weight, lr=0.1, momentum=0.5),
                sgd(both, lr=0.2),
                sgd(bias, lr=0.3),
                torch.optim.Adam([bias[0] | {"name": "single"}], lr=0.4),
                sgd(bias, lr=0.5),
            ]
            named = {"scheduler": step_lr(optimizers[2], 2), "name": "mine"}
            return optimizers, [step_lr(optimizers[1], 1), named, step_lr(optimizers[1], 3)]

    theirs = host.loggers.CSVLogger(tmp_path / "theirs")
    ours = host.loggers.CSVLogger(tmp_path / "ours")
    given = {"log_every_n_steps": 2, "max_epochs": 3}
    monitor = host.callbacks.LearningRateMonitor(logging_interval="step", log_momentum=True)
    trainer(logger=theirs, callbacks=[monitor], **given).fit(Many())
    rates = LearningRates(momentum=True)
    trainer(logger=[ours, logger], callbacks=[rates], **given).fit(Many())
    assert rows(tmp_path / "ours") == rows(tmp_path / "theirs")
    assert any("lr-SGD-3" in row for row in rows(tmp_path / "ours"))
    assert steps(logger.experiment, "training/lr-SGD/body") == [1, 3, 5]


def rows(folder):
    with next(folder.rglob("metrics.csv")).open(newline="") as file:
        read = list(csv.DictReader(file))
    return [
        {name: float(value) for name, value in row.items() if value}
        for row in read
        if any(value and name.startswith("lr") for name, value in row.items())
    ]


@pytest.mark.parametrize("every", [1, 3])
def test_rows_stand_beside_lightnings_own(helpers, trainer, logger, every):
    """With two optimizers that step in every batch, which the trainer counts as two steps."""

    class Gan(helpers.module_class()):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            loss = self(batch[0]).pow(2).mean()
            self.log("train/loss", loss)
            self.manual_backward(loss)
            for optimizer in self.optimizers():
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.SGD([weight], lr=0.1) for weight in self.parameters()]

    given = {"max_steps": 12, "max_epochs": 9, "log_every_n_steps": every}
    trainer(logger=logger, callbacks=[cls() for cls in ALL], **given).fit(Gan())
    run = logger.experiment
    logged = steps(run, "training/train/loss")
    assert logged == list(range(every - 1, 6, every))
    for path in {*PATHS, "training/grad_norm/0", "training/grad_norm/1"} - {"training/grad_norm"}:
        assert steps(run, path) == logged, path
    assert values(run, "profiling/eta_s")[-1] == 0
    assert not run.exists("monitoring/seamark/dropped")


def test_an_accumulated_batch_is_no_step(tiny, trainer, logger):
    given = {"max_epochs": 3, "accumulate_grad_batches": 2}
    trainer(logger=logger, callbacks=[cls() for cls in ALL], **given).fit(tiny)
    run = logger.experiment
    assert steps(run, "training/train/loss") == [0, 1, 2]
    for path in PATHS:
        assert steps(run, path) == [0, 1, 2], path
    check_rates(run, 4)
    assert values(run, "profiling/eta_s")[-1] == 0


def test_the_end_is_the_earliest_that_is_set(tiny, trainer, logger):
    """Of ``max_steps``, ``max_epochs`` and ``max_time``."""
    given = {"logger": logger, "max_epochs": -1}
    trainer(**given, callbacks=[StepTimes()], max_time="00:10:00:00", max_steps=3).fit(tiny)
    eta = values(logger.experiment, "profiling/eta_s")
    assert max(eta) < 36_000
    assert eta[-1] == 0
    trainer(**given, callbacks=[StepTimes()], max_time="00:00:00:03", max_steps=10**9).fit(tiny)
    assert max(values(logger.experiment, "profiling/eta_s")[3:]) <= 3


def test_a_training_resumed_in_an_epoch_is_timed_from_there(
    host, tiny, trainer, logger, tmp_path, monkeypatch
):
    """No hook tells of the epoch's start then; the clock of the machine is no step time."""
    since_boot = itertools.count(10**6)
    monkeypatch.setattr("seamark.lightning._callbacks.perf_counter", lambda: next(since_boot))
    saving = host.callbacks.ModelCheckpoint(str(tmp_path), every_n_train_steps=3, save_top_k=-1)
    trainer(logger=False, callbacks=[saving], max_epochs=4).fit(tiny)
    (path,) = tmp_path.glob("*step=3.ckpt")
    given = {"logger": logger, "callbacks": [StepTimes()], "max_epochs": 4}
    trainer(**given).fit(tiny, ckpt_path=str(path))
    run = logger.experiment
    assert steps(run, "profiling/step_time_s") == steps(run, "training/train/loss")
    assert max(values(run, "profiling/step_time_s")) < 1000
    assert max(values(run, "profiling/epoch_time_s")) < 1000


def test_steps_that_were_not_recorded_do_not_leak_into_the_next_training(tiny, trainer, logger):
    callback = StepTimes()
    small = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(6, 4)))
    trainer(logger=logger, callbacks=[callback], log_every_n_steps=4).fit(tiny, small)
    trainer(logger=logger, callbacks=[callback], log_every_n_steps=2).fit(tiny)
    assert sorted(steps(logger.experiment, "profiling/step_time_s")) == [1, 3]
    run = logger.experiment
    took, rate = (
        dict(zip(steps(run, path), values(run, path), strict=True))[1]
        for path in ("profiling/step_time_s", "profiling/samples_per_second")
    )
    assert rate * took == pytest.approx(4)  # the batch size of the second; that of the first is 1


def test_norms_of_every_kind_of_gradient(host, trainer, logger):
    """Complex, double and short floats, sparse, frozen and unused parameters."""

    class Kinds(host.LightningModule):
        def __init__(self):
            super().__init__()
            self.complexes = torch.nn.Parameter(torch.tensor([3 + 4j, 1j]))
            self.doubles = torch.nn.Parameter(torch.full((2,), 1e30, dtype=torch.float64))
            self.shorts = torch.nn.Parameter(torch.tensor([300.0, 400.0], dtype=torch.float16))
            self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)
            self.unused = torch.nn.Parameter(torch.ones(2))
            self.rows = torch.nn.Embedding(4, 2, sparse=True)

        def training_step(self, batch, batch_idx):
            found = self.complexes.abs().pow(2).sum() + self.doubles.pow(2).sum()
            return found + self.shorts.float().pow(2).sum() + self.rows(torch.tensor([1, 1])).sum()

        def train_dataloader(self):
            return torch.utils.data.DataLoader([0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    module = Kinds()
    trainer(logger=logger, callbacks=[GradientNorms(per_parameter=True)]).fit(module)
    run = logger.experiment
    expected = {"complexes": (10**2 + 2**2) ** 0.5, "doubles": 2e30 * 2**0.5, "shorts": 1000.0,
                "rows/weight": 8**0.5}  # fmt: skip
    for name, norm in expected.items():
        assert values(run, f"training/grad_norm/{name}") == pytest.approx([norm]), name
    assert values(run, "training/grad_norm") == pytest.approx([2e30 * 2**0.5])
    assert not run.exists("training/grad_norm/frozen")
    assert not run.exists("training/grad_norm/unused")

"""Ignite's own logger for neptune."""

from __future__ import annotations

import neptune
import pytest
import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint
from recorded import values

try:
    from ignite.handlers.neptune_logger import NeptuneLogger, NeptuneSaver
except ImportError:
    from ignite.contrib.handlers.neptune_logger import NeptuneLogger, NeptuneSaver


def test_ignite(read):
    """Ignite's own logger, its handlers, and its checkpoints."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    engine = Engine(lambda engine, _: engine.state.iteration / 2)
    logger = NeptuneLogger(project="team/moved", name="ignite")
    logger.attach_output_handler(
        engine,
        event_name=Events.ITERATION_COMPLETED,
        tag="training",
        output_transform=lambda loss: {"loss": loss},
    )
    logger.attach_opt_params_handler(engine, event_name=Events.EPOCH_COMPLETED, optimizer=optimizer)
    engine.add_event_handler(
        Events.EPOCH_COMPLETED, Checkpoint({"model": net}, NeptuneSaver(logger), n_saved=1)
    )
    engine.run([0, 1], max_epochs=2)
    run = logger.experiment
    assert isinstance(run, neptune.Run)
    again = read(run)
    assert values(again["training/loss"]) == [0.5, 1, 1.5, 2]
    assert values(again["lr/group_0"]) == pytest.approx([0.1, 0.1])
    assert again.exists("model_4.pt")
    assert not again.exists("model_2.pt")

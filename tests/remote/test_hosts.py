"""A training of Ignite that is read from its server alone."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from recording import QUIET

import seamark
from seamark.remote import shipper as shippers


def test_ignite_trains_to_a_server(there):
    """What its handlers recorded is read there, while the run goes on and after its end."""
    pytest.importorskip("ignite")
    from ignite.engine import Engine, Events

    from seamark.ignite import SeamarkLogger

    trainer = Engine(lambda _, batch: batch / 2)
    given = there("runs")

    def read(run):
        return seamark.init_run(with_id=run.id, mode="read-only", **there("reader"))

    with SeamarkLogger(tags=["ignite"], **QUIET, **given) as logger:
        logger.attach_output_handler(
            trainer,
            event_name=Events.ITERATION_COMPLETED,
            tag="training",
            output_transform=lambda loss: {"loss": loss},
        )
        trainer.run([4.0, 2.0, 1.0], max_epochs=2)
        run = logger.experiment
        assert read(run)["training/loss"].fetch_points().value.tolist() == [2, 1, 0.5] * 2
        assert read(run)["sys/state"].fetch() == "running"
    assert shippers.flush(given["remote"], 60)
    assert read(run)["sys/state"].fetch() == "completed"
    assert read(run)["sys/tags"].fetch() == {"ignite"}

"""A training of Ignite that is read from its server alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from recording import QUIET

import seamark
from seamark.remote import shipper as shippers


@pytest.fixture
def one(run_server, monkeypatch) -> Any:
    """A server on SQLite, whose admin asks."""
    server = run_server()
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    return server


def test_ignite_trains_to_a_server(one: Any, tmp_path: Path) -> None:
    """What its handlers recorded is read there, while the run goes on and after its end."""
    pytest.importorskip("ignite")
    from ignite.engine import Engine, Events

    from seamark.ignite import SeamarkLogger

    trainer = Engine(lambda _, batch: batch / 2)
    given: Any = {"root": tmp_path / "runs", "remote": one.url, "tags": ["ignite"], **QUIET}

    def there(run: Any) -> Any:
        opened: Any = {"with_id": run.id, "mode": "read-only", "remote": one.url}
        return seamark.init_run("team/digits", **opened)

    with SeamarkLogger(project="team/digits", **given) as logger:
        logger.attach_output_handler(
            trainer,
            event_name=Events.ITERATION_COMPLETED,
            tag="training",
            output_transform=lambda loss: {"loss": loss},
        )
        trainer.run([4.0, 2.0, 1.0], max_epochs=2)
        run = logger.experiment
        assert there(run)["training/loss"].fetch_points().value.tolist() == [2, 1, 0.5] * 2
        assert there(run)["sys/state"].fetch() == "running"
    assert shippers.flush(one.url, 60)
    assert there(run)["sys/state"].fetch() == "completed"
    assert there(run)["sys/tags"].fetch() == {"ignite"}

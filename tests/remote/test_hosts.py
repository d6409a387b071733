"""A training of Ignite and a notebook that know a run by its server alone."""

from __future__ import annotations

import ast
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


@pytest.mark.slow
def test_a_notebook_trains_to_a_server_and_looks_at_it(
    one: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells record, draw, list and complete what only the server has to tell."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("plotly")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    config = pytest.importorskip("traitlets.config").Config({"KernelManager": {"transport": "ipc"}})
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name[:3]))
    cells = [
        (
            f"import seamark\nwhere = dict(remote={one.url!r})\n"
            f"run = seamark.init_run('team/nb', name='cells', **where, **{QUIET!r})\n"
            "for step in range(20):\n    run.log_metrics({'loss': 1 / (step + 1)}, step=step)"
        ),
        (
            "seen = seamark.init_run('team/nb', with_id=run.id, mode='read-only', **where)\n"
            "seen['loss'].fetch_points().value.tolist()"
        ),
        "run.stop()\nseen['sys/state'].fetch()",
        "seen.plot('loss')",
        "seen",
        (
            "project = seamark.init_project('team/nb', mode='read-only', **where)\n"
            "[row['sys/name'] for row in project.fetch_runs_table()]"
        ),
        "sorted(each for each in seen._ipython_key_completions_() if 'l' in each)[:1]",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    nbclient.NotebookClient(notebook, config=config, timeout=100).execute()
    shown = [
        next((each.data for each in cell.outputs if "data" in each), {}) for cell in notebook.cells
    ]
    points = ast.literal_eval(shown[1]["text/plain"])
    assert points == [1 / (step + 1) for step in range(20)]
    assert ast.literal_eval(shown[2]["text/plain"]) == "completed"
    (line,) = shown[3]["application/vnd.plotly.v1+json"]["data"]
    assert line["name"]
    assert "cells" in shown[4]["text/html"]
    assert ast.literal_eval(shown[5]["text/plain"]) == ["cells"]
    assert ast.literal_eval(shown[6]["text/plain"])

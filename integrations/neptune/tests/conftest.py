"""Seamark in the place of neptune, before anything imports it; and a run to record into."""

from __future__ import annotations

import importlib.metadata
import os

import pytest

import seamark.neptune

seamark.neptune.install()

PROVEN = {
    "neptune:oldest": {
        "lightning": "2.6.1",
        "pytorch-ignite": "0.4.13",
        "pytorch-lightning": "1.9.5",
    },
    "neptune:latest": {
        "neptune-fastai": "1.1.1",
        "neptune-lightgbm": "2.0.0",
        "neptune-optuna": "1.4.1",
        "neptune-pytorch": "2.0.0",
        "neptune-sklearn": "2.1.4",
        "neptune-tensorboard": "1.0.3",
        "neptune-xgboost": "1.1.1",
        "pytorch-ignite": "0.5.5",
        "pytorch-lightning": "2.6.6",
        "transformers": "5.23.0",
    },
}
FOREIGN = ("SEAMARK_", "NEPTUNE_", "SLURM_", "TORCHELASTIC_", "RANK", "LOCAL_RANK", "WORLD_SIZE")
CLAIM = os.environ.get("SEAMARK_REQUIRE", "neptune:latest")

_OF_OLDEST = ["test_old_lightning.py"]
_OF_LATEST = ["test_integrations.py", "test_stub.py"]
collect_ignore = _OF_LATEST if CLAIM == "neptune:oldest" else _OF_OLDEST


def pytest_configure() -> None:
    """Refuse to start where a package is missing, or is another than is to be proved."""
    for name, version in PROVEN[CLAIM].items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "nothing"
        if found != version:
            msg = f"SEAMARK_REQUIRE={CLAIM} means {name} {version}, but installed is {found}"
            raise pytest.UsageError(msg)


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory, monkeypatch):
    """An empty folder, a cache and an environment of its own."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    # Above the folder of all tests no root is looked for.
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
    for what in ("HARDWARE_METRICS", "GIT", "PACKAGES", "STDOUT", "STDERR"):
        monkeypatch.setenv(f"SEAMARK_CAPTURE_{what}", "0")


@pytest.fixture
def run():
    import neptune

    with neptune.init_run(project="team/moved") as run:
        yield run


@pytest.fixture
def read():
    """Stop a run, and return it as somebody else opens it for reading."""
    import neptune

    def read(run):
        run.stop()
        return neptune.init_run(
            project=run.project, with_id=run["sys/id"].fetch(), mode="read-only"
        )

    return read


@pytest.fixture
def values():
    """Return the values of a series."""

    def values(handler):
        return handler.fetch_values(include_timestamp=False)["value"].tolist()

    return values

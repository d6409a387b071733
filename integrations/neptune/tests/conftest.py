"""A home for scripts that import ``neptune``, and a run there to record into.

With ``--home=installed`` Seamark replaces the package ``neptune``; with ``--home=server`` that
package itself talks to a server of Seamark. The scripts are the same.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from isolation import *  # noqa: F403 - its fixtures and hooks
from isolation import reset_signals
from recorded import between_homes, differences, flat, seen_by_client
from server_process import running_server

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
HOMES = {"installed": {}, "server": {"neptune": "1.14.0.post2"}}
CLAIM = os.environ.get("SEAMARK_REQUIRE", "neptune:latest")
PROJECT = "team/moved"

_OF_OLDEST = ["test_old_lightning.py"]
_OF_LATEST = ["test_integrations.py", "test_stub.py"]
collect_ignore = _OF_LATEST if CLAIM == "neptune:oldest" else _OF_OLDEST


def pytest_addoption(parser: pytest.Parser) -> None:
    """Run the same scripts at either home, and compare their records."""
    parser.addoption("--home", choices=list(HOMES), default="installed")
    parser.addoption(
        "--recorded",
        type=Path,
        metavar="FOLDER",
        help="Note there what is recorded when installed; compare what a server has with it.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to start where a package is missing or has another version."""
    reset_signals()
    home = config.getoption("--home")
    for name, version in {**PROVEN[CLAIM], **HOMES[home]}.items():
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "nothing"
        if found != version:
            msg = f"{CLAIM} at home={home} means {name} {version}, but installed is {found}"
            raise pytest.UsageError(msg)
    if home == "installed":
        import seamark.neptune

        seamark.neptune.install()  # before anything imports it
    else:
        collect_ignore.append("test_stub.py")  # what install() does to Lightning


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the client cannot do, where it is used."""
    if config.getoption("--home") == "server":
        left = [item for item in items if item.get_closest_marker("installed")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def server(request, tmp_path_factory):
    """Variables by which scripts find a server; none where Seamark is installed."""
    if request.config.getoption("--home") == "installed":
        yield {}
        return
    with running_server(tmp_path_factory.mktemp("server") / "kept") as made:
        words = ["token", "create", "--neptune", "--project", PROJECT, "--server", made.url]
        ours = {"SEAMARK_API_TOKEN": made.token}
        told = subprocess.run(
            [sys.executable, "-m", "seamark", *words],
            env={**os.environ, **ours},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        theirs = dict(line.split("=", 1) for line in told.splitlines())
        yield {**theirs, **ours, "SEAMARK_REMOTE": made.url}


@pytest.fixture
def _environment(server):
    """Variables for both packages: captures are off; a server may be named."""
    names = ("HARDWARE_METRICS", "GIT", "PACKAGES", "STDOUT", "STDERR")
    off = {f"SEAMARK_CAPTURE_{name}": "0" for name in names}
    return {**server, **off, "MPLBACKEND": "agg"}


@pytest.fixture(autouse=True)
def _seeds(_isolated):
    """The same random numbers with each package."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the one that integrations draw from
    torch.manual_seed(0)


@pytest.fixture
def run():
    import neptune

    quiet = {f"capture_{what}": False for what in ("hardware_metrics", "stdout", "stderr")}
    with neptune.init_run(project=PROJECT, **quiet) as run:
        yield run


@pytest.fixture
def read(request, server, tmp_path_factory):
    """Stop a run, and return it opened for reading.

    With a server, what the client and Seamark read is compared, and both with what the same script
    recorded where Seamark was installed.
    """
    import neptune

    import seamark

    noted = request.config.getoption("--recorded")
    opened = []

    def read(run):
        name = run["sys/id"].fetch()
        run.stop()
        again = neptune.init_run(project=PROJECT, with_id=name, mode="read-only")
        where = {"remote": server["SEAMARK_REMOTE"]} if server else {}
        ours = seamark.init_run(project=PROJECT, with_id=name, mode="read-only", **where)
        opened.extend([again, ours])
        found = flat(ours.to_dict())
        if server:
            folder = tmp_path_factory.mktemp("seen")
            assert differences(found, seen_by_client(again, folder)) == {}
        if noted is not None:
            file = noted / f"{request.node.name}.json"
            if server:
                assert between_homes(json.loads(file.read_text()), found) == {}
            else:
                noted.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(found))
        return again

    yield read
    for each in opened:
        each.stop()

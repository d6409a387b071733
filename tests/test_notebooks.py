"""Notebooks, executed in real kernels: what they show, record, and say when they are stopped."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest
from recording import QUIET

from seamark import init_project, init_run

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("plotly")
client_of = pytest.importorskip("jupyter_client")
Config = pytest.importorskip("traitlets.config").Config

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
FOLDERS = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")
PLOT = "application/vnd.plotly.v1+json"
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("captured")]


@pytest.fixture(autouse=True)
def _places(tmp_path_factory, monkeypatch):
    """Jupyter writes into folders of its own; short names, as sockets in them want it."""
    for name in FOLDERS:
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name.lower()[:3])))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)


class Kernel:
    def __init__(self):
        self.manager = client_of.KernelManager(transport="ipc")
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code, watch=lambda message: None):
        messages = []

        def seen(message):
            messages.append((message["msg_type"], message["content"]))
            watch(message)

        given = {"output_hook": seen, "allow_stdin": False, "timeout": 120}
        reply = self.client.execute_interactive(code, **given)
        return reply["content"]["status"], messages

    def begin(self, code, until):
        self.client.execute(code)
        while not until(self.client.get_iopub_msg(timeout=60)):
            pass

    def interrupted(self, code, when):
        seen = []

        def watch(message):
            if when(message) and not seen:
                seen.append(message)
                self.manager.interrupt_kernel()

        return self.run(code, watch)[0]

    def value(self, code):
        status, messages = self.run(code)
        assert status == "ok", messages
        (found,) = (one["data"]["text/plain"] for kind, one in messages if kind == "execute_result")
        return ast.literal_eval(found)

    def end(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def own_kernel():
    started = Kernel()
    yield started
    started.end()


@pytest.fixture(scope="module")
def _shared_kernel():
    """A kernel for all tests of this file, started in a folder that remains."""
    started = Kernel()
    yield started
    started.end()


@pytest.fixture
def kernel(_shared_kernel):
    """The shared kernel with the folder and the variables of the test, and no names."""
    place, variables = str(Path.cwd()), dict(os.environ)
    home = _shared_kernel.value("__import__('os').getcwd()")
    _shared_kernel.run(
        f"%reset -f\nimport os\nos.chdir({place!r})\nos.environ.update({variables!r})"
    )
    assert _shared_kernel.value("os.getcwd()") == place
    yield _shared_kernel
    _shared_kernel.run(f"import os\nos.chdir({home!r})")


def begin_run(kernel, **more):
    given = {**QUIET, **more}
    kernel.run(f"import seamark, time\nrun = seamark.init_run('demo', **{given!r})")
    return kernel.value("run.id")


def state_of(run):
    reader = init_run("demo", with_id=run, mode="read-only")
    return reader["sys/state"].fetch()


def is_printed(message):
    return message["msg_type"] == "stream" and "begun" in message["content"]["text"]


TRAIN = """
for step in range(10**9):
    run["loss"].append(1 / (step + 1))
    if step == 10:
        print("begun")
    time.sleep(0.001)
"""


def rows(project):
    with init_project(project) as opened:
        return list(opened.fetch_runs_table())


def execute(notebook, **given):
    config = Config({"KernelManager": {"transport": "ipc"}})
    nbclient.NotebookClient(notebook, config=config, **given).execute()
    return notebook


def notebook_of(cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])


def test_example_runs_and_shows_what_it_promises(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", str(Path("work/train.ipynb").absolute()))
    notebook = execute(nbformat.read(NOTEBOOK, as_version=4), timeout=100)
    shown = {
        cell.source.splitlines()[-1]: output.data
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.output_type in {"display_data", "execute_result"}
    }
    for last in ("run", 'run["train/loss"]', "table", "project"):
        page = shown[last]["text/html"]
        assert page.startswith('<div class="seamark')
        assert "<script" not in page
        assert "http" not in page
    assert "quick-otter · running" in shown["run"]["text/html"]
    assert "<svg" in shown['run["train/loss"]']["text/html"]
    assert "1 completed" in shown["project"]["text/html"]
    figures = [data[PLOT] for data in shown.values() if PLOT in data]
    assert len(figures) == 3
    assert all(any(one["mode"] == "lines" for one in figure["data"]) for figure in figures)
    assert "mean of 100 steps" in json.dumps(figures[0])
    said = {last: data.get("text/plain") for last, data in shown.items()}
    assert "(['epoch', 'loss'], True, False)" in said.values()
    assert "('quick-otter', [0.1], True)" in said.values()

    (row,) = rows("notebooks")
    assert row["sys/state"] == "completed"
    assert row["source_code/entrypoint"] == "work/train.ipynb"
    assert row["train/loss"] < 0.3


def test_interrupted_cell_ends_only_the_run_of_its_with_block(kernel):
    run = begin_run(kernel)
    assert kernel.interrupted(TRAIN, is_printed) == "error"
    assert kernel.value("run['sys/state'].fetch()") == "running"
    assert kernel.run("run['loss'].append(0.0)\nrun.stop()")[0] == "ok"
    assert state_of(run) == "completed"

    run = begin_run(kernel)
    body = TRAIN.strip().replace("\n", "\n    ")
    kernel.interrupted(f"with run:\n    {body}", is_printed)
    assert state_of(run) == "interrupted"


@pytest.mark.parametrize(("at_once", "state"), [(False, "interrupted"), (True, "crashed")])
def test_state_says_how_the_kernel_ended_in_a_cell(own_kernel, at_once, state):
    """Jupyter interrupts the cell first, if it is not killed at once."""
    run = begin_run(own_kernel)
    own_kernel.begin(TRAIN, until=is_printed)
    own_kernel.manager.shutdown_kernel(now=at_once)
    assert state_of(run) == state


def test_run_is_completed_if_another_cell_follows_the_interrupted_one(own_kernel):
    run = begin_run(own_kernel)
    own_kernel.interrupted(TRAIN, is_printed)
    own_kernel.run("run['loss'].fetch_last()")
    own_kernel.manager.shutdown_kernel(now=False)
    assert state_of(run) == "completed"


def is_update(message):
    return message["msg_type"] == "update_display_data"


def test_figure_follows_a_run_until_it_ends(kernel):
    run = init_run("demo", **QUIET)
    kernel.run("import seamark")
    early = []

    def has_points(message):
        lines = message["content"].get("data", {}).get(PLOT, {}).get("data", [])
        return is_update(message) and bool(lines)

    def watch(message):
        if has_points(message):
            run.stop()
        elif not any(map(is_update, early)):
            early.append(message)
            if is_update(message):
                run["val/loss"].extend([3.0, 2.0, 1.0])

    opened = f"seamark.init_run('demo', with_id={run.id!r}, mode='read-only')"
    status, sent = kernel.run(f"{opened}.plot('val/loss', refresh=0.2)", watch)
    assert status == "ok"
    assert "not yet" in json.dumps([message["content"] for message in early])  # no error
    (shown,) = (one for kind, one in sent if kind == "display_data" and PLOT in one["data"])
    places = {one["transient"]["display_id"] for kind, one in sent if kind.startswith("update")}
    assert places == {shown["transient"]["display_id"]}
    assert not [kind for kind, _ in sent if kind == "execute_result"]


CODE = [
    "import seamark\nAPI_KEY = 'planted-1'",
    "%env SOME_TOKEN=planted2",
    "run = seamark.init_run('demo', capture=dict(git=False, packages=False))",
    """import time
while 'version' not in run.fetch().get('source_code', {}):
    time.sleep(0.05)
early = run.fetch()['source_code']['version']""",
    "run['loss'].append(1.0)",
    "run['early'] = early\nrun.stop()",
    "after = 1",
]


def test_executed_cells_are_kept_without_outputs_and_secrets(tmp_path):
    notebook = notebook_of(CODE)
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text="an old output")]
    execute(notebook, timeout=100)
    (row,) = rows("demo")
    run = init_run("demo", with_id=row["sys/id"], mode="read-only")
    run["source_code/cells"].download(str(tmp_path / "cells"))
    (file,) = [
        each for each in (tmp_path / "cells", *(tmp_path / "cells").glob("*")) if each.is_file()
    ]
    cells = file.read_text()
    for kept in ("API_KEY = '***'", "%env SOME_TOKEN=***", "# In[5]:\n\nrun['loss'].append(1.0)\n"):
        assert kept in cells
    assert "# In[6]:" in cells
    for other in ("planted", "after", "an old output"):
        assert other not in cells
    assert run["sys/masked"].fetch() == {"source_code/cells"}
    version = run["source_code/version"].fetch()
    assert len(version) == 16
    assert run["early"].fetch() != version

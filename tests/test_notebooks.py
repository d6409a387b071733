"""Notebooks, executed in real kernels: what they show, record, and say when they are stopped."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest
from recording import QUIET

from seamark import init_run

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
    """A kernel as a front end sees it."""

    def __init__(self):
        self.manager = client_of.KernelManager(transport="ipc")
        self.manager.start_kernel()
        self._connect()

    def _connect(self):
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code):
        """Execute a cell; return its status and its messages."""
        return self.wait(self.begin(code))

    def begin(self, code):
        return self.client.execute(code)

    def wait(self, cell, until=None):
        """Return how a cell ended and what it sent; stop early where ``until`` says so."""
        messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != cell:
                continue
            messages.append((message["msg_type"], message["content"]))
            if until is not None and until(message):
                return "", messages
            if messages[-1] == ("status", {"execution_state": "idle"}):
                break
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == cell:
                return reply["content"]["status"], messages

    def value(self, code):
        """Return what an expression is in the kernel."""
        status, messages = self.run(code)
        assert status == "ok", messages
        (found,) = (one["data"]["text/plain"] for kind, one in messages if kind == "execute_result")
        return ast.literal_eval(found)

    def keys(self, typed):
        """Return what Tab proposes behind what was typed."""
        asked = self.client.complete(typed)
        while True:
            reply = self.client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == asked:
                content = reply["content"]
                return {typed[: content["cursor_start"]] + match for match in content["matches"]}

    def end(self):
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def own_kernel():
    """A kernel that a test may end."""
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
    """Begin a run in a kernel and return its id."""
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


# ---------------------------------------------------------------------- the example


def executed(path=NOTEBOOK):
    """Execute a notebook and return it."""
    notebook = nbformat.read(path, as_version=4)
    config = Config({"KernelManager": {"transport": "ipc"}})
    nbclient.NotebookClient(notebook, config=config, timeout=100).execute()
    return notebook


def outputs_of(notebook):
    """Return (source of the cell, data) of all that is shown."""
    return [
        (cell.source, output.data)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in {"display_data", "execute_result"}
    ]


def test_the_example_runs_and_shows_what_it_promises(monkeypatch):
    """Runs, namespaces and tables as HTML, figures as figures; the run is recorded."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(Path("work/train.ipynb").absolute()))
    notebook = executed()
    shown = {source.splitlines()[-1]: data for source, data in outputs_of(notebook)}
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

    from seamark import init_project

    with init_project("notebooks") as project:
        (row,) = project.fetch_runs_table()
    assert row["sys/state"] == "completed"
    assert row["source_code/entrypoint"] == "work/train.ipynb"
    assert row["train/loss"] < 0.3


def test_the_example_is_kept_without_outputs():
    """They would differ with every run; the tests make their own."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)


def test_tab_proposes_paths(kernel):
    """Of a run, below a namespace, of a project, and the columns of a table."""
    begin_run(kernel)
    kernel.run("run['train/loss'].append(1.0)\nrun['train/acc'].append(1.0)")
    kernel.run("project = seamark.init_project('demo')\nproject['config/depth'] = 3")
    kernel.run("table = project.fetch_runs_table()\ntrain = run['train']")
    assert {'run["train"]', 'run["train/loss"]', 'run["sys/state"]'} <= with_end(kernel, 'run["')
    assert with_end(kernel, 'run["train/l') == {'run["train/loss"]'}
    assert with_end(kernel, "train['") == {"train['acc']", "train['loss']"}
    assert 'project["config/depth"]' in with_end(kernel, 'project["')
    assert 'table["train/acc"]' in with_end(kernel, 'table["t')


def with_end(kernel, typed):
    """Return the whole expressions that Tab proposes, whether it writes their end or not."""
    quote = "'" if "'" in typed else '"'
    return {one.rstrip("]'\"") + f"{quote}]" for one in kernel.keys(typed)}


# ---------------------------------------------------------------------- kernels that are stopped


def test_an_interrupted_cell_ends_no_run(kernel):
    """The kernel lives, and the next cell records on; a ``with`` block ends its own."""
    run = begin_run(kernel)
    cell = kernel.begin(TRAIN)
    kernel.wait(cell, until=is_printed)
    kernel.manager.interrupt_kernel()
    status, _ = kernel.wait(cell)
    assert status == "error"
    assert kernel.value("run['sys/state'].fetch()") == "running"
    assert kernel.run("run['loss'].append(0.0)\nrun.stop()")[0] == "ok"
    assert state_of(run) == "completed"

    run = begin_run(kernel)
    body = TRAIN.strip().replace("\n", "\n    ")
    cell = kernel.begin(f"with run:\n    {body}")
    kernel.wait(cell, until=is_printed)
    kernel.manager.interrupt_kernel()
    kernel.wait(cell)
    assert state_of(run) == "interrupted"


@pytest.mark.parametrize(
    ("busy", "at_once", "state"),
    [
        (False, False, "completed"),  # as a script that ends
        (True, False, "interrupted"),  # Jupyter interrupts the cell first
        (True, True, "crashed"),
    ],
)
def test_a_kernel_that_ends_says_how(own_kernel, busy, at_once, state):
    """A restart in the middle of a training does not complete it."""
    run = begin_run(own_kernel)
    own_kernel.run("run['loss'].append(1.0)")
    if busy:
        own_kernel.wait(own_kernel.begin(TRAIN), until=is_printed)
    own_kernel.manager.shutdown_kernel(now=at_once)
    assert state_of(run) == state


def test_a_cell_after_the_interrupted_one_makes_it_history(own_kernel):
    """Whoever looked at the run afterwards and closed the notebook was not interrupted."""
    run = begin_run(own_kernel)
    cell = own_kernel.begin(TRAIN)
    own_kernel.wait(cell, until=is_printed)
    own_kernel.manager.interrupt_kernel()
    own_kernel.wait(cell)
    own_kernel.run("run['loss'].fetch_last()")
    own_kernel.manager.shutdown_kernel(now=False)
    assert state_of(run) == "completed"


# ---------------------------------------------------------------------- refreshing


def is_update(message):
    return message["msg_type"] == "update_display_data"


def test_a_figure_follows_a_run_until_it_ends(kernel):
    """In the place of the one before; the cell ends with the run."""
    run = init_run("demo", **QUIET)
    kernel.run("import seamark")
    opened = f"seamark.init_run('demo', with_id={run.id!r}, mode='read-only')"
    cell = kernel.begin(f"{opened}.plot('val/loss', refresh=0.2)")
    _, first = kernel.wait(cell, until=is_update)
    assert "not yet" in json.dumps(first)  # no error: the training has only begun
    run["val/loss"].extend([3.0, 2.0, 1.0])

    def has_points(message):
        lines = message["content"].get("data", {}).get(PLOT, {}).get("data", [])
        return is_update(message) and bool(lines)

    kernel.wait(cell, until=has_points)
    run.stop()
    status, last = kernel.wait(cell)
    assert status == "ok"
    shown = [one for kind, one in first if kind == "display_data" and PLOT in one["data"]]
    assert len(shown) == 1
    places = {one["transient"]["display_id"] for kind, one in last if kind.startswith("update")}
    assert places == {shown[0]["transient"]["display_id"]}
    assert not [one for kind, one in last if kind == "display_data" and PLOT in one["data"]]
    assert not [kind for kind, _ in last if kind == "execute_result"]


def test_interrupting_the_cell_stops_the_looking_only(kernel):
    """No error, nothing written, and the run goes on."""
    run = init_run("demo", **QUIET)
    run["val/loss"].append(1.0)
    kernel.run("import seamark")
    before = sorted(path.name for path in run.folder.journal_dir.iterdir())
    cell = kernel.begin("seamark.init_project('demo').plot('val/loss', refresh=0.2)")
    kernel.wait(cell, until=is_update)
    kernel.manager.interrupt_kernel()
    status, _ = kernel.wait(cell)
    assert status == "ok"
    assert state_of(run.id) == "running"
    assert sorted(path.name for path in run.folder.journal_dir.iterdir()) == before
    assert kernel.value("1 + 1") == 2  # the kernel is free again
    run.stop()


# ---------------------------------------------------------------------- the code of a notebook

CODE = [
    "import seamark\nAPI_KEY = 'planted-1'",
    "%env SOME_TOKEN=planted2",
    "run = seamark.init_run('demo', capture=dict(git=False, packages=False))",
    """import threading
[one.join() for one in threading.enumerate() if 'capture' in one.name]
early = run.fetch()['source_code']['version']""",
    "run['loss'].append(1.0)",
    "run['early'] = early\nrun.stop()",
    "after = 1",
]


def code_of(project="demo"):
    from seamark import init_project

    with init_project(project) as opened:
        (row,) = opened.fetch_runs_table()
    return init_run(project, with_id=row["sys/id"], mode="read-only")


def text_of(run, name, tmp_path):
    place = tmp_path / name
    run[f"source_code/{name}"].download(str(place))
    (file,) = [place] if place.is_file() else place.iterdir()
    return file.read_text()


def notebook_of(cells, path):
    cells = [nbformat.v4.new_code_cell(source) for source in cells]
    output = nbformat.v4.new_output("stream", text="an old output")
    cells[0].outputs = [output]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_the_cells_of_a_notebook_are_kept(tmp_path):
    """As they were executed up to the end; no outputs."""
    executed(notebook_of(CODE, tmp_path / "train.ipynb"))
    run = code_of()
    cells = text_of(run, "cells", tmp_path)
    assert "planted" not in cells
    assert "API_KEY = '***'" in cells
    assert "%env SOME_TOKEN=***" in cells
    assert "# In[5]:\n\nrun['loss'].append(1.0)\n" in cells
    assert "# In[6]:" in cells
    assert "after" not in cells
    assert run["sys/masked"].fetch() == {"source_code/cells"}
    version = run["source_code/version"].fetch()
    assert len(version) == 16
    assert run["early"].fetch() != version


@pytest.mark.thorough
def test_the_same_cells_have_the_same_version(tmp_path):
    """And other ones another."""
    found = []
    for number, last in enumerate(("x = 1", "x = 1", "x = 2")):
        project = "same"
        cells = [
            CODE[0],
            f"run = seamark.init_run('{project}', tags='{number}')",
            last,
            "run.stop()",
        ]
        cells[1] = cells[1].replace(f", tags='{number}'", "")
        executed(notebook_of(cells, tmp_path / f"{number}.ipynb"))
    from seamark import init_project

    with init_project("same") as opened:
        found = [row["source_code/version"] for row in opened.fetch_runs_table()]
    assert len(found) == 3
    assert sorted(map(found.count, found)) == [1, 2, 2]

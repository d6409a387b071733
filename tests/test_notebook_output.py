"""Cells show the same whether what they print is recorded or not."""

from __future__ import annotations

import pytest
from printed import points, printed

from seamark.pictures.terminal import stripped

pytest.importorskip("ipykernel")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytestmark = pytest.mark.once

CELLS = (
    "import sys, seamark\nrun = seamark.init_run()",
    "print('one')\nprint('two', end='')\nprint('err', file=sys.stderr)\n3 + 4",
    "for n in range(5):\n    print(f'\\r{n}', end='', flush=True)\nprint()",
    "import logging\nlogging.warning('watch out')\nsys.stdout.flush()",
    "import subprocess\nsubprocess.run([sys.executable, '-c', 'print(5)'], stdout=-1).stdout",
    "def fail():\n    raise ValueError('no')\nfail()",
    "sys.stdout.isatty(), type(sys.stdout).__name__, sys.stdout is sys.__stdout__",
    "run.stop()\nprint('after', hasattr(sys.stdout.write, 'seamark_tap'))",
)


@pytest.fixture(autouse=True)
def _places(tmp_path_factory, monkeypatch):
    """Jupyter writes into folders of its own; short names, as sockets in them want it."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name.lower()[:3])))
    monkeypatch.setenv("SEAMARK_QUIET", "1")


def executed(folder):
    """Return what each cell shows, texts of one stream that follow each other as one."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        book, timeout=120, allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    return [_joined(cell.outputs) for cell in book.cells]


def _joined(outputs):
    found: list[dict] = []
    for each in outputs:
        if found and each.get("name") == found[-1].get("name") == "stdout":
            found[-1]["text"] += each["text"]
        else:
            found.append(dict(each))
    return found


@pytest.mark.once
@pytest.mark.thorough
def test_cells_show_the_same(tmp_path, monkeypatch):
    """Streams, results and errors; and both streams are recorded."""
    recorded = executed(tmp_path)
    texts = printed(tmp_path / ".seamark")
    monkeypatch.setenv("SEAMARK_CAPTURE_STDOUT", "0")
    monkeypatch.setenv("SEAMARK_CAPTURE_STDERR", "0")
    count = len(points(tmp_path / ".seamark"))
    plain = executed(tmp_path)
    assert len(points(tmp_path / ".seamark")) == count
    assert recorded == plain
    assert plain[-1][0]["text"] == "after False\n"
    assert stripped(texts["stdout"]) == "one\n4wo"
    assert "ValueError" not in texts["stdout"]
    assert texts["stderr"].startswith("err\n")
    assert "watch out" in texts["stderr"]

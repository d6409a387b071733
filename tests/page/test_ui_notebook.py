"""`seamark.ui()`: a page in a cell, and a notebook that opens it for nobody else."""

from __future__ import annotations

import re

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("uvicorn")

from page_process import ask, page_environment, until  # noqa: E402
from recording import QUIET  # noqa: E402

import seamark  # noqa: E402
from seamark.errors import ArgumentError, SeamarkError  # noqa: E402
from seamark.page import notebook, roots  # noqa: E402
from seamark.page.start import Started  # noqa: E402
from seamark.run.run import init_run  # noqa: E402

FRAME = re.compile(r'<iframe src="http://127\.0\.0\.1:(\d+)/(open/[\w-]{40,})" ')


@pytest.fixture(autouse=True)
def _places(tmp_path_factory, tmp_path, monkeypatch):
    """Jupyter writes into folders of its own; short names, as sockets in them want it."""
    for name, value in page_environment(XDG_STATE_HOME=str(tmp_path / "state")).items():
        monkeypatch.setenv(name, value)
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path_factory.mktemp(name.lower()[:3])))
    for name in ("BROWSER", "DISPLAY", "JUPYTERHUB_SERVICE_PREFIX"):
        monkeypatch.delenv(name, raising=False)


def refuses(port):
    try:
        ask(port, "GET", "/api/v1/")
    except OSError:
        return True
    return False


SHOW = """
import seamark
frame = seamark.ui({root!r}, height=500)
frame
"""
USE = """
import http.client, re
page = seamark.ui({root!r})
where = re.search(r":(\\d+)/(open/[^\\"]+)", page._repr_html_())
for _ in range(2):
    connection = http.client.HTTPConnection("127.0.0.1", int(where[1]))
    connection.request("GET", "/" + where[2])
    answer = connection.getresponse()
    print(answer.status, len(answer.headers["location"]) > 40, page.url == frame.url)
"""


@pytest.mark.once
def test_a_notebook_shows_the_page_and_holds_no_token(tmp_path):
    root = tmp_path / ".seamark"
    init_run("demo", root=root, **QUIET).stop()
    cells = [nbformat.v4.new_code_cell(one.format(root=str(root))) for one in (SHOW, USE)]
    made = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(made, timeout=120, kernel_name="python3").execute()
    saved = nbformat.writes(made)
    token = roots.keep()
    assert len(token) > 40
    assert token not in saved
    assert "seamark_" not in saved
    [shown] = made.cells[0].outputs
    found = FRAME.match(shown["data"]["text/html"])
    assert found
    assert 'height="500"' in shown["data"]["text/html"]
    assert shown["data"]["text/plain"] == f"the page of {root} (in a terminal: seamark ui)"
    [said] = made.cells[1].outputs
    assert said["text"].splitlines() == ["303 True True", "303 False True"]
    until(lambda: refuses(int(found[1])))


def test_mistakes_are_errors_before_anything_is_started(tmp_path):
    with pytest.raises(ArgumentError, match="does not exist"):
        seamark.ui(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match="height"):
        seamark.ui(height=3)


def test_a_frame_is_below_the_proxy_of_a_hub_and_says_when_the_page_has_ended(monkeypatch):
    """A kernel need not know the address of its hub."""
    gone = notebook.Frame(Started("http://127.0.0.1:9/", "secret", "127.0.0.1", 9), [], 500)
    with pytest.raises(SeamarkError, match="call the function again"):
        gone._repr_html_()
    monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", "/user/anna/")
    frame = notebook.Frame(Started("http://127.0.0.1:9/", None, "127.0.0.1", 9), [], 500)
    assert '<iframe src="/user/anna/proxy/9/" ' in frame._repr_html_()

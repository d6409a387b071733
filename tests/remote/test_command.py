"""The command on a server: it shows and changes what it would below a root."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("fastapi")

from click.testing import CliRunner
from command import app
from recording import QUIET

from seamark import init_run
from seamark.cli._printed import Printing
from seamark.cli._runs import Runs
from seamark.cli.watch import Looker
from seamark.journal.folder import iter_runs
from seamark.reading.codec import pack
from seamark.reading.reader import Answer
from seamark.remote.http.catalog import RemoteCatalog
from seamark.remote.http.connection import Connection
from seamark.remote.places import open_remote
from seamark.remote.sync import sync_run, unsent_data

UNCHANGED = pack(Answer(unchanged=True))


@pytest.fixture
def sent(server, tmp_path, monkeypatch):
    """Project of two runs that are on the server."""
    project = f"p{tmp_path.name.replace('_', '-')}"
    monkeypatch.setenv("SEAMARK_API_TOKEN", server.token)
    root = tmp_path / "runs"
    for name, slope in (("steep", 2.0), ("flat", 0.5)):
        run = init_run(project, root=root, name=name, **QUIET)
        run["params/lr"] = slope
        for step in range(30):
            run["val/loss"].append(slope / (step + 1), step=step)
        run.stop()
    remote = open_remote(server.url, server.token)
    for folder in iter_runs(root):
        assert sync_run(unsent_data(folder, remote), remote).problems == []
    return project


@pytest.fixture
def call(server, sent):
    """Call the command for the project on the server, once that is folded."""

    def call(*words):
        return CliRunner().invoke(app, [*map(str, words), "--remote", server.url])

    from server_waits import until

    until(lambda: len(json.loads(call("ls", "--project", sent, "--json").stdout or "[]")) == 2)
    return call


def test_runs_are_listed_shown_and_compared(call, sent):
    rows = json.loads(call("ls", "--project", sent, "--json", "--columns", "val/loss:min").stdout)
    assert sorted(row["val/loss:min"] for row in rows) == [0.5 / 30, 2.0 / 30]
    shown = call("show", f"{sent}/steep")
    assert shown.exit_code == 0, shown.output
    assert "val/loss" in shown.stdout
    assert "server " in shown.stdout
    compared = call("compare", f"{sent}/steep", f"{sent}/flat")
    assert "params/lr" in compared.stdout
    exported = call("export", f"{sent}/steep", "--path", "val/loss")
    assert len(exported.stdout.splitlines()) == 31
    drawn = call("plot", "--project", sent, "--by", "params/lr", "val/*", "--height", "8")
    assert "params/lr = 2.0 (n = 1)" in drawn.stdout
    refused = call("plot", "--project", sent, "--by", "params/lr", "val/los")
    assert (refused.exit_code, "did you mean 'val/loss'" in refused.stderr) == (2, True)


def test_what_is_wrong_is_said_in_one_line(call, sent, server):
    missing = call("show", f"{sent}/stepe")
    assert missing.exit_code == 2
    assert f"no run '{sent}/stepe' in {server.url}" in missing.stderr
    wrong = call("ls", "--query", "params/lr >")
    assert wrong.exit_code == 2
    assert "^" in wrong.stderr
    both = call("ls", "--root", "here")
    assert both.exit_code == 2
    assert "--root and --remote" in both.stderr
    away = CliRunner().invoke(app, ["ls", "--remote", "http://127.0.0.1:9"])
    assert away.exit_code == 1
    assert "cannot be reached" in away.stderr


@pytest.mark.parametrize("command", ["fsck", "reindex"])
def test_what_looks_into_folders_refuses_a_server(server, command):
    result = CliRunner().invoke(app, ["--remote", server.url, command])
    assert result.exit_code == 2
    assert "looks at a root on this machine" in result.stderr


def test_people_change_what_is_on_the_server(call, sent):
    run = f"{sent}/steep"
    assert "(no tags) → best" in call("tag", run, "--add", "best").stdout
    assert "best → (no tags)" in call("tag", run, "--remove", "best").stdout
    assert "(no description) → warmer" in call("describe", run, "warmer").stdout
    assert "warmer → (no description)" in call("describe", run, "--remove").stdout
    assert "steep → steeper" in call("rename", run, "steeper").stdout
    assert call("trash", f"{sent}/steeper").exit_code == 0
    assert len(json.loads(call("ls", "--project", sent, "--json").stdout)) == 1
    assert call("untrash", f"{sent}/steeper").exit_code == 0
    assert len(json.loads(call("ls", "--project", sent, "--json").stdout)) == 2


def test_purging_deletes_there_and_says_where_copies_stay(call, sent):
    refused = call("purge", f"{sent}/flat", "--yes")
    assert refused.exit_code == 2
    assert "not in the trash" in refused.stderr
    done = call("purge", f"{sent}/flat", "--yes", "--force")
    assert done.exit_code == 0, done.output
    assert "copies on the machines that recorded them stay" in done.stderr
    assert len(json.loads(call("ls", "--project", sent, "--json").stdout)) == 1


_LOADED = """
import sys
from seamark.cli import app
try:
    app(sys.argv[1:])
finally:
    print(*sorted({"sqlalchemy", "pandas", "torch"} & set(sys.modules)), file=sys.stderr)
"""


def test_reading_a_server_loads_no_database(call, sent, server):
    del call  # by which the runs are folded
    words = ["compare", f"{sent}/steep", f"{sent}/flat", "--remote", server.url]
    command = [sys.executable, "-c", _LOADED, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.strip() == ""


def test_looking_again_costs_a_few_short_answers(call, sent, server, monkeypatch):
    """`watch` and `logs --follow` ask each second: what did not change is not sent again."""
    del call
    answers: list[tuple[str, bytes]] = []
    ask = Connection.ask

    def counting(self, method, path, **rest):
        answer = ask(self, method, path, **rest)
        answers.append((path.rpartition("/")[2], answer.body))
        return answer

    catalog = RemoteCatalog.open(server.url)
    runs = Runs(catalog)
    looker = Looker(runs, runs.find(f"{sent}/steep"), [])
    first = list(looker.look().series)
    curve = looker.curve("val/loss", 48)
    view = runs.view(looker.ref)
    printing = Printing({0})
    assert list(printing.new(view)) == []
    looker.look()
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "ask", counting)
        again = looker.look()
        assert looker.curve("val/loss", 48) is curve
        runs.index.refresh(looker.ref.project, looker.ref.run)
        view = runs.view(looker.ref)
        assert view.state == "completed"
        assert list(printing.new(view)) == []
    assert again.series == first
    whole = [name for name, body in answers if body != UNCHANGED]
    assert set(whole) <= {"ranks"}, answers  # what changes with time alone
    assert len(answers) <= 6, answers
    assert sum(len(body) for _, body in answers) < 1 << 10
    catalog.close()

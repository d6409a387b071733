from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from command import main
from scripts import run_script

import seamark
from seamark.cli._app import _COMMANDS, _SYNONYMS, unknown_command_message

DANGEROUS = ("purge", "trash", "untrash", "reindex")
HEAVY = {"numpy", "pandas", "matplotlib", "plotly", "plotille", "torch", "lightning"}


def test_help_names_every_command_and_each_has_examples(cli):
    shown = cli("--help").stdout
    assert cli().stdout == shown
    for command in _COMMANDS:
        assert f"\n  {command} " in shown
        help_text = cli(command, "--help").stdout
        assert "Example" in help_text, command
        assert f"  seamark {command}" in help_text, command
        without_runs = ("completion", "import", "login", "logout", "server", "token")
        assert "--root" in help_text or command in without_runs, command
        assert max(map(len, help_text.splitlines())) <= 80, command
        assert help_text.count("--quiet") == 1, command


def test_root_is_an_option_before_or_after_the_command_or_a_variable(
    cli, record, root, tmp_path, monkeypatch
):
    run = record()
    monkeypatch.delenv("SEAMARK_DIR")
    assert run in cli("ls", "--root", root).stdout
    assert run in cli("--root", root, "ls").stdout
    assert cli("ls", "--root", tmp_path / "no").exit_code == 2
    assert cli("ls", SEAMARK_DIR=str(tmp_path / "no")).exit_code == 2
    done = cli("ls", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, [])
    assert "no runs here yet" in done.stderr


def test_closed_pipe_closed_output_and_full_disk(record, root):
    def bash(line):
        words = ["bash", "-c", line.replace("seamark", f"{sys.executable} -m seamark")]
        return subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)

    done = bash(f"seamark export {record(steps=3000)} | head -1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines() == ["run,path,step,value,time,attempt", "141"]
    assert done.stderr == ""
    assert bash("seamark ls >&- 2>&-").returncode == 0
    done = bash("seamark --help > /dev/full")
    assert (done.returncode, "No space left on device" in done.stderr) == (1, True)


def test_ctrl_c_and_unexpected_errors_show_no_traceback(root, capfd, monkeypatch):
    def fail(*_, **__):
        msg = "a mistake\nof ours"
        raise ZeroDivisionError(msg)

    interrupt = lambda *_, **__: signal.raise_signal(signal.SIGINT)  # noqa: E731
    monkeypatch.setattr("seamark.cli.ls.open_runs", interrupt)
    assert main(["ls"]) == 130
    assert capfd.readouterr().err.strip() == ""
    monkeypatch.setattr("seamark.cli.ls.open_runs", fail)
    assert main(["ls"]) == 1
    shown = capfd.readouterr().err
    assert "unexpected ZeroDivisionError: a mistake of ours" in shown
    assert shown.count("\n") == 1
    monkeypatch.setenv("SEAMARK_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["ls"])


def test_ascii_output_stays_readable(record, cli):
    shown = cli("show", record(name="größe"), PYTHONIOENCODING="ascii").stdout
    assert r"gr\xf6\xdfe" in shown
    assert "0~19\n" in shown
    assert r"\u" not in shown


def test_version(cli):
    assert cli("--version").stdout == f"seamark {seamark.__version__}\n"


IMPORTS = """
import sys
from seamark.__main__ import main

def call(*words, lacks):
    assert main(words) == 0
    print(*words, *sorted(set(sys.modules) & lacks), sep=",", file=sys.stderr)

heavy = {heavy!r}
call("--help", lacks=heavy | {{"sqlalchemy", "rich", "seamark.blobs"}})
call("ls", lacks=heavy | {{"rich"}})
call("ls", "--json", lacks=heavy | {{"rich"}})
"""


@pytest.mark.once
def test_help_and_ls_import_nothing_heavy(record, cli):
    """Where nothing is new; folding needs NumPy. Help imports nothing that opens files either."""
    record()
    cli("ls")
    _, said = run_script(IMPORTS.format(heavy=HEAVY))
    assert said.splitlines() == ["--help", "ls", "ls,--json"]


def test_nearest_command_is_suggested_and_never_one_that_deletes():
    slips = "LS ls, shwo show, wacth watch"
    words = "list ls, mv rename"  # of other programs
    for pair in (*slips.split(", "), *words.split(", ")):
        typed, meant = pair.split()
        said = unknown_command_message(typed, _COMMANDS)
        assert said == f"there is no command {typed!r}; did you mean {meant!r}?"
    for dangerous in DANGEROUS:
        for typed in (dangerous[:-1], dangerous.upper() + "S"):
            said = unknown_command_message(typed, _COMMANDS)
            assert not any(f"'{one}'?" in said for one in DANGEROUS), said
    assert not {*_SYNONYMS.values()} & {*DANGEROUS}
    assert {*_SYNONYMS.values()} <= {*_COMMANDS}


@pytest.mark.once
def test_quiet_hides_hints_and_shows_errors(cli, record):
    record(), record()
    assert "--limit 0 shows all" in cli("ls", "--limit", 1).stderr
    for words, more in (
        (("-q", "ls", "--limit", 1), {}),
        (("ls", "--limit", 1, "--quiet"), {}),
        (("ls", "--limit", 1), {"SEAMARK_QUIET": "1"}),
    ):
        done = cli(*words, **more)
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 2
    done = cli("--quiet", "show", "nobody")
    assert done.exit_code == 2
    assert "no run 'nobody'" in done.stderr

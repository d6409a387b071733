"""Tab completes what exists, quickly and in silence."""

from __future__ import annotations

import pytest
from command import main

from seamark.cli._app import _COMMANDS, COMPLETE, SHELLS


@pytest.fixture
def tab(root, monkeypatch, capsys):
    """Press Tab behind a line, as bash asks; return the words that are proposed."""

    def press(line):
        given = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), COMPLETE: "bash_complete"}
        capsys.readouterr()
        with monkeypatch.context() as context:
            for name, value in given.items():
                context.setenv(name, value)
            assert main([]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        answers = [answer.partition(",") for answer in said.out.split()]
        assert {kind for kind, _, _ in answers} <= {"plain", "dir", "file"}
        return [value for _, _, value in answers]

    return press


@pytest.fixture
def three(record):
    """Three runs by name, in two projects; no id begins with their first letters."""
    return {
        "zen": record("vision/mnist", name="zen", tags=["best", "v1"], params={"lr": 0.1}),
        "yellow": record("audio", name="yellow"),
        "xenon": record("audio", name="xenon"),
    }


def test_commands_options_runs_paths_tags_and_states_are_completed(tab, cli, three):
    assert cli("trash", "xenon").exit_code == 0
    assert set(tab("seamark ")) == set(_COMMANDS)
    for line, words in {
        "sh": ["show"],
        "show --pro": ["--project"],
        "show ": ["latest", "yellow", "zen"],
        "show z": ["zen"],
        f"show {three['yellow'][:-1]}": [three["yellow"]],
        "show --project vision ": ["latest", "zen"],
        "ls --project ": ["audio", "vision/mnist"],
        "show zen tr": ["train/loss"],
        "ls --columns par": ["parameters/lr"],
        "compare zen yellow --path tr": ["train/loss"],
        "plot yellow val": ["val/loss"],
        "ls --tag ": ["best", "v1"],
        "tag zen --remove b": ["best"],
        "ls --state c": ["created", "completed", "crashed"],
        "untrash ": ["latest", "xenon"],
        "purge x": ["xenon"],
        "completion ": list(SHELLS),
    }.items():
        assert tab(f"seamark {line}") == words, line


def test_wrong_lines_and_roots_complete_nothing_silently(tab, root, tmp_path, monkeypatch):
    for line in (
        "nothing x",
        "show --root /dev/null ",
        "show nobody tr",
        "ls --query '",
    ):
        assert tab(f"seamark {line}") == [], line
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "no"):
        monkeypatch.setenv("SEAMARK_DIR", str(place))
        assert tab("seamark show ") == []
    monkeypatch.setenv("SEAMARK_DIR", str(root))
    monkeypatch.setattr("seamark.index.index.Index.open", lambda *_: 1 / 0)
    assert tab("seamark show ") == []


def test_names_with_special_characters_of_shells_are_not_completed(tab, start):
    names = ["$(touch evil)", "`touch evil`", "a b", "a;b", "-rf", "*", "~root", "x:y", "'", "a,b"]
    ids = []
    for name in (*names, "a\nplain,b"):
        with start("p", name=name, tags=[name]) as run:
            run["params"] = {"$(touch evil)": 1, "ok": 2}
            run["monitoring/x/pid"] = 1
        ids.append(run.id)
    assert tab("seamark show ") == ["latest", *reversed(ids)]
    assert tab("seamark ls --tag ") == []
    assert tab(f"seamark show {run.id} params") == ["params/ok"]
    assert "monitoring/x/pid" not in tab(f"seamark show {run.id} ")  # it would hide all else
    assert tab(f"seamark show {run.id} monitoring/") == ["monitoring/x/pid"]


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_speaks_the_protocol_of_each_shell(shell, three, monkeypatch, capsys):
    assert main(["completion", shell]) == 0
    assert f"{COMPLETE}={shell}_complete" in capsys.readouterr().out
    monkeypatch.setenv(COMPLETE, f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", "seamark show " if shell == "fish" else "seamark show ze")
    monkeypatch.setenv("COMP_CWORD", "ze" if shell == "fish" else "2")
    assert main([]) == 0
    told = f"completed {three['zen']}"
    wanted = {"bash": "plain,zen\n", "zsh": f"plain\nzen\n{told}\n", "fish": f"plain,zen\t{told}\n"}
    assert capsys.readouterr() == (wanted[shell], "")

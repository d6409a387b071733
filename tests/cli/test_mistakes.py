"""Thirty lines that people type by mistake, and what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from seamark.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

MISTAKES: tuple[tuple[list[str], str, str], ...] = (
    # the command
    (["shwo", "good"], "'shwo'", "'show'"),
    (["diff", "good", "slow"], "'diff'", "'compare'"),
    (["delete", "good"], "'delete'", "seamark trash --help"),
    (["purgee"], "'purgee'", "there are ls, show"),
    (["server"], "'server'", "seamark --help"),
    # the option
    (["ls", "--colums", "x"], "'--colums'", "'--columns'"),
    (["ls", "--where", "x"], "'--where'", "--query"),
    (["--rot", "x", "ls"], "'--rot'", "'--root'"),
    (["fsck", "--finsh"], "'--finsh'", "'--finish'"),
    (["watch", "good", "-x"], "'-x'", "--interval"),
    (["ls", "--project"], "--project", "seamark ls --help"),
    # the run
    (["show"], "'RUN'", "seamark show --help"),
    (["show", "gud"], "'gud'", "seamark ls"),
    (["watch", "demo/gud"], "'demo/gud'", "seamark ls"),
    (["compare", "good", "gud"], "'gud'", "seamark ls"),
    (["compare", "good"], "two runs or more", "demo/"),
    (["plot", "gud", "val/loss"], "'gud'", "seamark ls"),
    (["export"], "which runs?", "--query"),
    (["tag", "good", "best"], "'best'", "--add best"),
    (["show", "good", "--project", "elsewhere"], "'elsewhere'", "no run 'good'"),
    # the path
    (["show", "good", "vall"], "vall", "seamark show"),
    (["plot", "good", "vall/loss"], "'vall/loss'", "val/loss"),
    (["compare", "good", "slow", "--path", "vall/loss"], "'vall/loss'", "'val/loss'"),
    # the type
    (["ls", "--limit", "many"], "'many'", "--limit"),
    (["plot", "good", "val/loss", "--smooth", "2"], "2.0", "0<=x<1"),
    (["watch", "good", "--interval", "0"], "0.0", "0.1<=x<=86400"),
    (["export", "good", "--format", "xml"], "'xml'", "'json'"),
    (["completion", "tcsh"], "'tcsh'", "'zsh'"),
    # the query
    (["ls", "--query", "val/loss <"], "column 11", "expected a value"),
    (["ls", "--query", "val/loss:medan < 1"], "'medan'", "mean"),
    (["ls", "--state", "finishd"], "'finishd'", "completed"),
    # the place, the name
    (["ls", "--root", "/nowhere/at/all"], "/nowhere/at/all", "--root"),
    (["ls", "--project", "a//b"], "'a//b'", "letters, digits"),
    (["rename", "good", "a\x1bb"], "'a\\x1bb'", "expected no control characters"),
    (["note", "good", "x", "--remove"], "got both", "--remove"),
)


@pytest.mark.parametrize(("words", "wrong", "right"), MISTAKES, ids=lambda given: str(given)[:40])
def test_a_mistake_is_told_in_one_line(
    record: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    wrong: str,
    right: str,
) -> None:
    """Exit code 2; what was wrong, and something that exists; no traceback, no output."""
    for name in ("good", "slow"):
        record("demo", steps=2, name=name)
    capsys.readouterr()
    code = main(words)
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    line, *more = said.err.splitlines()
    assert not more or "--query" in words  # there the place may be pointed at
    assert line.startswith("seamark")
    assert wrong in said.err
    assert right in line
    assert "Traceback" not in said.err
    assert len(said.err) < 400


def test_there_are_thirty() -> None:
    """Each is another one."""
    assert len({tuple(words) for words, _, _ in MISTAKES}) >= 30

"""Thirty lines that people type by mistake, and what they are told."""

from __future__ import annotations

from command import main

MISTAKES: tuple[tuple[list[str], str, str], ...] = (
    # the command
    (["shwo", "good"], "'shwo'", "'show'"),
    (["diff", "good", "slow"], "'diff'", "'compare'"),
    (["delete", "good"], "'delete'", "seamark trash --help"),
    (["purgee"], "'purgee'", "there are ls, show"),
    (["serve"], "'serve'", "seamark --help"),
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
    (["show", "good", "--project", "elsewhere"], "'elsewhere'", "demo/"),
    # the path
    (["show", "good", "vall"], "vall", "seamark show"),
    (["plot", "good", "vall/loss"], "'vall/loss'", "val/loss"),
    (["compare", "good", "slow", "--path", "vall/loss"], "'vall/loss'", "'val/loss'"),
    # the type
    (["ls", "--limit", "many"], "'many'", "--limit"),
    (["plot", "good", "val/loss", "--smooth", "0.5"], "at least 1", "not the weight"),
    (["plot", "good", "val/loss", "--smooth", "nan"], "nan", "at least 1"),
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
    (["describe", "good", "x", "--remove"], "got both", "--remove"),
    # what is meant
    (["ls", "--project", "dem"], "", "no runs in project 'dem'; did you mean 'demo'?"),
    (["export", "--all", "--project", "zzz"], "", "no runs in project 'zzz'; there are demo"),
    (["trash", "--query", "a = 1", "--project", "dem"], "", "did you mean 'demo'?"),
    (["purgee"], "", "among others"),
    (["trash", "good", "--query", "a = 1"], "", "expected names or --query, got both"),
    (["export", "good", "--all"], "", "got more than one of them"),
    (["show", "good", "val/los"], "", "did you mean 'val/loss'?"),
    (["show", "good", "--limit", "-3"], "", "-3"),
    (["show", "demo"], "", "it is a project: seamark ls --project demo, or demo/latest"),
    (["show", "goo"], "", "did you mean 'good'?"),
    (["plot", "good", "val/loss", "-x", "foo"], "", "step, order, time, relative"),
    (["plot", "good", "val/loss", "-o", "nodir/x.png"], "", "the folder nodir does not exist"),
    (["ls", "--csv", "--json"], "", "expected one of --csv and --json, got both"),
)


def test_a_mistake_is_told_in_one_line(record, capsys):
    """Exit code 2; what was wrong, and something that exists; no traceback, no output."""
    for name in ("good", "slow"):
        record("demo", steps=2, name=name)
    for words, wrong, right in MISTAKES:
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr()
        assert (code, said.out) == (2, ""), words
        line, *more = said.err.splitlines()
        assert not more or "--query" in words, words  # there the place may be pointed at
        assert line.startswith("seamark"), words
        assert wrong in said.err, words
        assert right in line, words
        assert "Traceback" not in said.err, words
        assert len(said.err) < 400, words


def test_what_is_not_there_is_said(record, capsys):
    """A tag that no run has, texts that none wrote, a series that has not come yet."""
    record("demo", steps=2, name="good", tags=["paper"])
    for words, said in (
        (["ls", "--tag", "papr"], "no run matches: none has the tag 'papr'; did you mean 'paper'?"),
        (["export", "good", "--what", "texts"], "no series of texts there"),
        (["watch", "good", "--path", "nosuch"], "nothing matches 'nosuch' yet"),
    ):
        assert main(words) == 0
        assert said in capsys.readouterr().err


def test_a_run_is_named_by_its_folder_too(record, root, capsys):
    """As Seamark prints it; paths may be patterns, and sections have no line before the first."""
    run = record("demo", steps=2, name="good")
    capsys.readouterr()
    assert main(["show", str(root / "demo" / run), "val/*"]) == 0
    assert "val/loss" in capsys.readouterr().out
    assert main(["show", str(root / "demo"), "val/*"]) == 2
    capsys.readouterr()
    assert main(["show", run, "val", "sys/name"]) == 0
    assert capsys.readouterr().out.startswith("Series (1)\n")

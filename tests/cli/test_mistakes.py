"""Command lines with a mistake, and their error messages."""

from __future__ import annotations

from pathlib import Path

from command import main
from journals import journal_files

MISTAKES: tuple[tuple[list[str], str, str], ...] = (
    # the command
    (["shwo", "good"], "'shwo'", "'show'"),
    (["delete", "good"], "'delete'", "seamark trash --help"),
    (["purgee"], "'purgee'", "commands include ls, show"),
    # the option
    (["ls", "--colums", "x"], "'--colums'", "'--columns'"),
    (["ls", "--where", "x"], "'--where'", "--query"),
    (["--rot", "x", "ls"], "'--rot'", "'--root'"),
    (["ls", "--project"], "--project", "seamark ls --help"),
    # the run
    (["show"], "'RUN'", "seamark show --help"),
    (["show", "gud"], "'gud'", "seamark ls"),
    (["compare", "good"], "two runs or more", "demo/"),
    (["export"], "which runs?", "--query"),
    (["tag", "good", "best"], "'best'", "--add best"),
    (["show", "good", "--project", "elsewhere"], "'elsewhere'", "demo/"),
    # the path
    (["show", "good", "vall"], "vall", "seamark show"),
    (["compare", "good", "slow", "--path", "vall/loss"], "'vall/loss'", "'val/loss'"),
    # the type
    (["ls", "--limit", "many"], "'many'", "--limit"),
    (["plot", "good", "val/loss", "--smooth", "0.5"], "at least 1", "not the weight"),
    (["export", "good", "--format", "xml"], "'xml'", "'json'"),
    # the query
    (["ls", "--query", "val/loss <"], "column 11", "expected a value"),
    (["ls", "--state", "finishd"], "'finishd'", "completed"),
    # the place, the name
    (["ls", "--root", "/nowhere/at/all"], "/nowhere/at/all", "--root"),
    (["ls", "--project", "a//b"], "'a//b'", "letters, digits"),
    (["rename", "good", "two\nlines"], r"'two\nlines'", "expected no control characters"),
    (["rename", "good", "latest"], "'latest'", "which always means the newest run"),
    (["describe", "good", ""], "''", "description: expected some text"),
    (["describe", "good", "x", "--remove"], "got both", "expected TEXT or --remove"),
    (["tag", "good", "--add", "x", "--remove", "x"], "got both", "--add and --remove for 'x'"),
    # what is meant
    (["ls", "--project", "dem"], "", "no runs in project 'dem'; did you mean 'demo'?"),
    (["trash", "good", "--query", "a = 1"], "", "expected names or --query, got both"),
    (["export", "good", "--all"], "", "got more than one of them"),
    (["show", "good", "--limit", "-3"], "", "-3"),
    (["show", "demo"], "", "it is a project: seamark ls --project demo, or demo/latest"),
    (["show", "goo"], "", "did you mean 'good'?"),
    (["plot", "good", "val/loss", "-x", "foo"], "", "step, order, time, relative"),
    (["ls", "--csv", "--json"], "", "expected one of --csv and --json, got both"),
    (["ls", "--kind", "group", "--by", "a", "--trashed"], "", "only runs have --trashed, --by"),
    (["server", "--workers", "0"], "", "0 is not in the range"),
    (["compare", "--query", 'sys/name = "good"'], "", "the query matches only demo/"),
    (["plot", "good"], "", "train/loss, val/loss"),
    # the file
    (["export", "good", "-o", "x.xlsx"], "", "one of .csv, .json, .parquet, or --format"),
    (
        ["export", "good", "-o", "x.csv", "--format", "json"],
        "",
        "contradicts the extension of x.csv",
    ),
    (["export", "good", "--format", "parquet"], "", "name a file with -o FILE.parquet"),
    # the path of what is exported
    (["export", "good", "--path", "val/los", "-o", "x.csv"], "", "did you mean 'val/loss'"),
    (["export", "good", "--path", "val/loss", "--path", "zzz"], "", "--path zzz: none of the runs"),
    (["export", "good", "--path", "sys/state"], "", "(--what attributes shows it)"),
    (["export", "good", "--path", "log", "-o", "x.csv"], "", "(--what texts shows it)"),
    # the interval, the remote
    *((["watch", "--interval", text], "", "--interval") for text in ("0", "nan", "inf", "soon")),
    (["sync"], "SEAMARK_REMOTE", "--to URI"),
    *(
        (["sync", "--to", uri], "", "")
        for uri in ("nonsense", "gopher://x", "file://relative", "file:///a\0b")
    ),
    # the server
    (["token", "list"], "", "no server is known: name one with --server"),
    (["token", "create", "--expires", "soon", "--server", "http://[::1]:1"], "", "such as 90d"),
    (["token", "list", "--folder", "x", "--server", "http://x"], "", "got both"),
    (
        ["token", "create", "--neptune", "--project", "a/b/c", "--server", "http://x"],
        "",
        "workspace/name",
    ),
    # an empty value, as a script's unset variable leaves it
    (["ls", "--tag", ""], "", "tag: expected a tag, got ''"),
    (["ls", "--state", " "], "", "state: expected a state such as running or failed, got ' '"),
    (["show", "good", ""], "", "paths: expected a path such as val/loss, got ''"),
    *(
        ([*words.split(), "--query", " "], "", "query: expected a condition such as 'val/loss <")
        for words in ("ls", "plot val/loss", "export", "tag --add best", "trash", "purge --yes")
    ),
    (["purge", "--yes", "--force", "--query", ""], "", "query: "),
)


def test_mistakes_are_explained_in_one_line_and_write_nothing(start, capsys):
    for name in ("slow", "good"):
        with start("demo", name=name) as run:
            run.log_metrics({"train/loss": 1.0, "val/loss": 2.0}, step=0)
            run["log"].append("a text")
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
    assert [path.name for path in Path().iterdir() if path.is_file()] == []
    assert len(journal_files(run)) == 1  # nothing was recorded


def test_missing_tags_texts_and_series_are_mentioned(record, capsys):
    record("demo", steps=2, name="good", tags=["paper"])
    papr = "no run matches: no run has the tag 'papr'; did you mean 'paper'?"
    for words, said in (
        (["ls", "--tag", "papr"], papr),
        (["export", "good", "--what", "texts"], "no series of texts found"),
        (["watch", "good", "--path", "nosuch"], "nothing matches 'nosuch' yet"),
    ):
        assert main(words) == 0
        assert said in capsys.readouterr().err


def test_run_is_named_by_its_folder_and_paths_may_be_patterns(record, root, capsys):
    run = record("demo", steps=2, name="good")
    capsys.readouterr()
    assert main(["show", str(root / "demo" / run), "val/*"]) == 0
    assert "val/loss" in capsys.readouterr().out
    assert main(["show", str(root / "demo"), "val/*"]) == 2
    capsys.readouterr()
    assert main(["show", run, "val", "sys/name"]) == 0
    assert capsys.readouterr().out.startswith("Series (1)\n")

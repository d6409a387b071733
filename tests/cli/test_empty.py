"""What a script's unset variable leaves behind, an empty value, is never taken for "all"."""

from __future__ import annotations

BY_QUERY: dict[str, list[str]] = {
    "ls": [],
    "plot": ["val/loss"],
    "export": [],
    "compare": [],
    "tag": ["--add", "best"],
    "trash": [],
    "untrash": [],
    "purge": ["--yes", "--force"],
}


def test_an_empty_query_chooses_nothing(cli, record):
    """It is refused before anything is hidden, deleted or changed."""
    kept = [record("p"), record("p")]
    for command, more in BY_QUERY.items():
        for query in ("", " ", "\t\n"):
            done = cli(command, *more, "--query", query)
            assert (done.exit_code, done.stdout) == (2, ""), command
            wanted = f"query: expected a condition such as 'val/loss < 0.3', got {query!r}"
            assert wanted in done.stderr, command
    listed = cli("ls", "--csv", "--columns", "sys/tags").stdout.splitlines()[1:]
    assert sorted(listed) == sorted(f"p,{run}," for run in kept)


NO_VALUES: tuple[tuple[list[str], str], ...] = (
    (["ls", "--tag", ""], "tag: expected a tag, got ''"),
    (["ls", "--state", " "], "state: expected a state such as running or failed, got ' '"),
    (["ls", "--columns", ","], "columns: expected a path such as val/loss, got ','"),
    (["ls", "--sort", ""], "sort: expected a path such as val/loss, got ''"),
    (["compare", "a", "b", "--path", ""], "path: expected a path such as val/loss, got ''"),
    (["export", "a", "--path", ""], "path: expected a path such as val/loss, got ''"),
    (["watch", "a", "--path", "/"], "path: expected a path such as val/loss, got '/'"),
    (["show", "a", ""], "paths: expected a path such as val/loss, got ''"),
    (["plot", "a", ""], "words: expected runs and series such as latest val/loss, got ''"),
    (["show", "a", "--project", ""], "''"),
    (["trash", ""], "no run ''"),
)


def test_no_other_value_is_empty(cli, record):
    """A column, a path, a tag or a state that is empty is no condition at all: it is refused."""
    record("p", name="a"), record("p", name="b")
    for words, said in NO_VALUES:
        done = cli(*words)
        assert (done.exit_code, done.stdout) == (2, ""), words
        assert said in done.stderr, words

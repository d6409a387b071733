"""What the command says to mistakes, and how it is kept quiet."""

from __future__ import annotations

import pytest

from seamark.cli._app import _COMMANDS, _SYNONYMS, unknown_command_message

DANGEROUS = ("purge", "trash", "untrash", "reindex")


def test_nearest_command_is_suggested_and_never_one_that_deletes():
    slips = "lss ls, LS ls, shwo show, compair compare, wacth watch, exprt export, renam rename"
    words = "list ls, diff compare, tail watch, follow watch, mv rename"  # of other programs
    for pair in (*slips.split(", "), *words.split(", ")):
        typed, meant = pair.split()
        said = unknown_command_message(typed, _COMMANDS)
        assert said == f"there is no command {typed!r}; did you mean {meant!r}?"
    for dangerous in DANGEROUS:
        for typed in (dangerous[:-1], dangerous + "e", dangerous[1:], dangerous.upper() + "S"):
            said = unknown_command_message(typed, _COMMANDS)
            assert not any(f"'{one}'?" in said for one in DANGEROUS), said
    assert not {*_SYNONYMS.values()} & {*DANGEROUS}
    assert {*_SYNONYMS.values()} <= {*_COMMANDS}


@pytest.mark.once
@pytest.mark.thorough
def test_quiet_hides_hints_and_shows_errors(cli, record):
    record(), record()
    assert "--limit 0 shows all" in cli("ls", "--limit", 1).stderr
    for words, more in (
        (("--quiet", "ls", "--limit", 1), {}),
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

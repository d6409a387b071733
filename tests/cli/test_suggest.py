"""What the command says to mistakes, and how it is kept quiet."""

from __future__ import annotations

import pytest

from seamark.cli._app import _COMMANDS, _SYNONYMS, about_command

DANGEROUS = ("purge", "trash", "untrash", "reindex")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lss", "ls"),
        ("LS", "ls"),
        ("shwo", "show"),
        ("compair", "compare"),
        ("wacth", "watch"),
        ("list", "ls"),
        ("diff", "compare"),
        ("tail", "watch"),
        ("follow", "watch"),
        ("exprt", "export"),
        ("renam", "rename"),
        ("mv", "rename"),
    ],
)
def test_the_command_that_is_meant_is_named(typed, meant):
    """A slip of the keyboard, or another tool's word."""
    said = about_command(typed, _COMMANDS)
    assert said == f"there is no command {typed!r}; did you mean {meant!r}?"


def test_nothing_that_deletes_is_proposed():
    """However near the typed name is: the next thing typed may be Return."""
    for dangerous in DANGEROUS:
        for typed in (dangerous[:-1], dangerous + "e", dangerous[1:], dangerous.upper() + "S"):
            said = about_command(typed, _COMMANDS)
            assert not any(f"'{one}'?" in said for one in DANGEROUS), said
    assert not {*_SYNONYMS.values()} & {*DANGEROUS}
    assert {*_SYNONYMS.values()} <= {*_COMMANDS}


@pytest.mark.once
@pytest.mark.thorough
def test_quiet_leaves_hints_out_and_errors_in(shell, record):
    """By option before or after the command, or by variable."""
    record(), record()
    assert "--limit 0 shows all" in shell("ls", "--limit", 1).stderr
    for words, more in (
        (("--quiet", "ls", "--limit", 1), {}),
        (("-q", "ls", "--limit", 1), {}),
        (("ls", "--limit", 1, "--quiet"), {}),
        (("ls", "--limit", 1), {"SEAMARK_QUIET": "1"}),
    ):
        done = shell(*words, **more)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 2
    done = shell("--quiet", "show", "nobody")
    assert done.returncode == 2
    assert "no run 'nobody'" in done.stderr

"""The command as ``python -m seamark`` runs it, for tests that call it in their own process."""

from __future__ import annotations

import sys

import click
from click.testing import CliRunner

from seamark.__main__ import main

__all__ = ["app", "main", "outcome_of", "output_of"]


class _Command(click.Command):
    def main(self, args=None, *_, **__):
        """End with the code with which the program ends."""
        sys.exit(main([*(args or ())]))


app = _Command("seamark")
"""What click's runner calls."""


def outcome_of(*words):
    """Call the command; return its exit code and what it prints."""
    return CliRunner().invoke(app, [*words], prog_name="seamark")


def output_of(*words):
    """Call the command, which has to succeed; return what it prints to standard output."""
    done = CliRunner().invoke(app, words, prog_name="seamark", catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout

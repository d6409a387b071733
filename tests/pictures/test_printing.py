"""``SEAMARK_QUIET`` silences what a run says of itself, and nothing that a person must know."""

from __future__ import annotations

import pytest
from recording import QUIET

from seamark import init_run
from seamark.pictures.printing import is_quiet


@pytest.mark.parametrize(
    ("said", "quiet"),
    [
        (None, False),
        ("", False),
        ("0", False),
        ("False", False),
        ("no", False),
        ("off", False),
        ("1", True),
        ("true", True),
        ("yes", True),
    ],
)
def test_what_the_variable_means(
    monkeypatch,
    said,
    quiet,
):
    """Anything is a yes that is no usual word for no."""
    if said is not None:
        monkeypatch.setenv("SEAMARK_QUIET", said)
    assert is_quiet() is quiet


def test_a_run_says_nothing(monkeypatch, capsys, tmp_path):
    """Neither where it is recorded nor that it is done; but losses are told."""
    with init_run("p", root=tmp_path, **QUIET) as run:
        run.log_metrics({"a": 1.0}, 0)
    said = capsys.readouterr().err
    assert "recording to" in said
    assert "completed" in said
    monkeypatch.setenv("SEAMARK_QUIET", "1")
    with init_run("p", root=tmp_path, **QUIET) as run:
        run.log_metrics({"a": 1.0}, 0)
    assert capsys.readouterr().err == ""
    run.session._print_end("completed", 0, [])
    assert capsys.readouterr().err == ""
    run.session._print_end("completed", 3, [])
    assert "3 values or records were lost" in capsys.readouterr().err

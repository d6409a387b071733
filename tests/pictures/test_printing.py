"""``SEAMARK_QUIET`` silences what a run says of itself, and nothing that a person must know."""

from __future__ import annotations

from recording import QUIET

from seamark import init_run
from seamark.pictures.printing import is_quiet


def test_the_variable_is_true_unless_it_is_a_usual_word_for_no(monkeypatch):
    assert is_quiet() is False
    no, yes = ["", "0", "False", "no", "off"], ["1", "true", "yes"]
    for word in (*no, *yes):
        monkeypatch.setenv("SEAMARK_QUIET", word)
        assert is_quiet() is (word in yes), word


def test_a_quiet_run_prints_losses_alone(monkeypatch, capsys, tmp_path):
    def said():
        with init_run("p", root=tmp_path, **QUIET) as run:
            run.log_metrics({"a": 1.0}, 0)
        return run, capsys.readouterr().err

    told = said()[1]
    assert "recording to" in told
    assert "completed" in told
    monkeypatch.setenv("SEAMARK_QUIET", "1")
    run, told = said()
    assert told == ""
    run.session._print_end("completed", 0, [])
    assert capsys.readouterr().err == ""
    run.session._print_end("completed", 3, [])
    assert "3 values or records were lost" in capsys.readouterr().err

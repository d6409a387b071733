"""``seamark logs`` shows what a run printed, as a terminal showed it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time

import pyte
import pytest

BAR = "".join(f"\repoch: {at}%" for at in range(0, 101, 10)) + "\n"
TOMORROW = time.strftime("%Y-%m-%d", time.localtime(time.time() + 86_400))


@pytest.fixture
def printed(start):
    """Record a run with these texts, as (stream, text), and return its id."""

    def record(*texts, namespace="monitoring/w1", **given):
        run = start(**given)
        run["parameters/lr"] = 0.1
        for stream, text in texts:
            run[f"{namespace}/{stream}"].append(text)
        run.stop()
        return run.id

    return record


@pytest.mark.parametrize("namespace", ["monitoring/w1", "monitoring/d41d8cd9", "mine"])
def test_lines_of_both_streams_are_in_order_and_complete(cli, printed, namespace):
    """A bar is its last state, wherever the texts were cut."""
    run = printed(
        ("stdout", "be"),
        ("stdout", "gin\nsecond\n"),
        ("stderr", BAR[:40]),
        ("stderr", BAR[40:]),
        ("stdout", "end without a line feed"),
        namespace=namespace,
    )
    whole = "begin\nsecond\nepoch: 100%\nend without a line feed\n"
    for words, shown in {
        "": whole,
        "--stdout --stderr": whole,
        "--stderr": "epoch: 100%\n",
        "--stdout --tail 1": "end without a line feed\n",
        "--tail 2": "epoch: 100%\nend without a line feed\n",
        "--tail 0": "",
    }.items():
        result = cli("logs", run, *words.split())
        assert (result.exit_code, result.stdout) == (0, shown), words
    assert "--tail 0 shows no lines" in result.stderr


@pytest.mark.once
def test_colours_are_kept_and_other_sequences_removed(cli, terminal, printed):
    """On a terminal, where standard error is dim."""
    text = "\x1b[31mred\x1b[0m\x1b]52;c;cm0=\a\x1b[2J \u202eplain\n"
    run = printed(("stdout", text), ("stderr", "oh\n"))
    shown = "\x1b[31mred\x1b[0m \\u202eplain\n\x1b[2moh\x1b[0m\n"
    assert terminal("logs", run) == (0, shown)
    assert "\x1b" not in terminal("logs", run, NO_COLOR="1")[1]
    assert "\x1b" not in terminal("logs", run, TERM="dumb")[1]
    assert cli("logs", run).stdout == "red \\u202eplain\noh\n"
    assert cli("logs", run, "--color").stdout.startswith("\x1b[31mred\x1b[0m")


def test_json_times_and_since(cli, printed):
    run = printed(("stdout", "\x1b[1mone\x1b[0m\n"), ("stderr", "two\n"))
    found = [json.loads(line) for line in cli("logs", run, "--json").stdout.splitlines()]
    assert [(one["stream"], one["rank"], one["text"]) for one in found] == [
        ("stdout", 0, "one"),
        ("stderr", 0, "two"),
    ]
    assert all(one["writer"] and one["t"].endswith("+00:00") for one in found)
    timed = cli("logs", run, "--stderr", "--times").stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  two\n", timed)
    none = cli("logs", run, "--since", TOMORROW)
    assert none.stdout == ""
    assert f"nothing was printed since {TOMORROW} 00:00:00" in none.stderr
    for since in ("10m", "-10m", "2020-01-01", "2020-01-01T10:30"):
        assert cli("logs", run, "--since", since).stdout == "one\ntwo\n", since
    for wrong in ("ten", "14:30"):
        result = cli("logs", run, "--since", wrong)
        assert result.exit_code == 2
        assert "expected an age such as 10m, or a time" in result.stderr


def test_run_without_output_is_an_error_that_says_why(cli, record):
    result = cli("logs", record())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no output is recorded: the run printed nothing, capture_stdout" in result.stderr
    assert "killed within half a second" in " ".join(result.stderr.split())
    assert "no standard error is recorded" in cli("logs", "latest", "--stderr").stderr


def test_header_names_each_process_of_a_reopened_run(cli, start):
    given = {"owner": True, "capture_stdout": True}
    for text in ("first\n", "second\nthird\n"):
        with start(custom_run_id="one", **given) as run:
            run["parameters/lr"] = 0.1
            sys.stdout.write(text)
    first, line, second, *more = cli("logs", run.id).stdout.splitlines()
    assert (line, more) == ("first", ["second", "third"])
    for head in (first, second):
        moment = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
        assert re.fullmatch(rf"--- process {os.getpid()} on \S+, from {moment} ---", head)
    told = [json.loads(line) for line in cli("logs", run.id, "--json").stdout.splitlines()]
    assert len({one["writer"] for one in told}) == 2


def test_output_of_ranks_is_chosen_by_rank(cli, start, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    for name, ranks in (("only rank 1", (1,)), ("several", (0, 1))):
        for rank in ranks:
            monkeypatch.setenv("RANK", str(rank))
            with start(custom_run_id=name, ranks="all", capture_stdout=True) as run:
                run.log_metrics({"loss": 1.0}, 0)
                sys.stdout.write(f"of rank {rank}\n")
        if name == "only rank 1":
            assert cli("logs", run.id).stdout == "of rank 1\n"
    assert cli("logs", run.id).stdout == "of rank 0\n"
    assert cli("logs", run.id, "--rank", 1).stdout == "of rank 1\n"
    both = cli("logs", run.id, "--rank", 0, "--rank", 1).stdout
    assert both == "0: of rank 0\n1: of rank 1\n"
    result = cli("logs", run.id, "--rank", 2)
    assert result.exit_code == 2
    assert "rank 2 is recorded; ranks with output: 0, 1" in result.stderr


@pytest.mark.parametrize("tail", [(), ("--tail", 2)])
def test_follow_shows_each_line_once_until_the_run_ends(cli, start, between, tail):
    run = start(name="live")
    out, error = run["monitoring/w/stdout"], run["monitoring/w/stderr"]
    out.append("one\ntwo\nthree\nbeg")
    waited = between(
        lambda: (out.append("un\n"), error.append(BAR[:40])),
        lambda: error.append(BAR[40:]),
        lambda: out.append("end"),
        run.stop,
    )
    done = cli("logs", "live", "--follow", *tail)
    assert done.exit_code == 0
    lines = ["one", "two", "three", "begun", "epoch: 100%", "end"]
    assert done.stdout.splitlines() == lines[2 if tail else 0 :]
    assert done.stderr.splitlines()[-1] == "live: completed"
    assert len(waited) == 4


def test_follow_waits_for_the_first_line_of_a_live_run_only(cli, start, between, printed):
    run = start(name="live")
    run.log_metrics({"loss": 1.0}, 0)
    between(lambda: run["monitoring/w/stdout"].append("at last\n"), run.stop)
    done = cli("logs", "live", "-f")
    assert done.exit_code == 0
    assert done.stdout == "at last\n"
    assert "nothing has been printed yet" in done.stderr
    assert cli("logs", printed(("stdout", "one\n")), "-f").stdout == "one\n"


@pytest.mark.once
def test_terminal_redraws_a_bar_and_ctrl_c_stops_quietly(start, terminal, between):
    run = start(name="live")
    out = run["monitoring/w/stderr"]
    out.append("begin\n\repoch: 10%")
    between(
        lambda: out.append("\repoch: 50%"),
        lambda: out.append("\repoch: 99%\nnext\n"),
        lambda: signal.raise_signal(signal.SIGINT),
    )
    code, shown = terminal("logs", "live", "--follow")
    assert code == 130
    assert "epoch: 10%" in shown
    assert "epoch: 50%" in shown
    screen = pyte.Screen(100, 40)
    pyte.Stream(screen).feed(shown.replace("\n", "\r\n"))
    lines = [line.rstrip() for line in screen.display if line.strip()]
    assert lines == ["begin", "epoch: 99%", "next"]
    run.stop()


def test_show_has_the_last_lines_of_a_failed_run_only(cli, start):
    run = start(name="bad")
    run["monitoring/w/stdout"].append("".join(f"line {at}\n" for at in range(20)))
    run["monitoring/w/stderr"].append("\x1b[31mboom\x1b[0m\n")
    run["mine/log"].append("a text of my own")
    running = cli("show", "bad").stdout
    assert f"output: seamark logs {run.id}" in running
    assert "mine/log" in running
    for hidden in ("line 19", "monitoring/w/stdout"):
        assert hidden not in running
    with pytest.raises(ZeroDivisionError), run:
        1 / 0  # noqa: B018 - raises
    failed = cli("show", "bad").stdout.splitlines()
    at = failed.index(f"Last lines of its output (all: seamark logs {run.id})")
    assert failed[at + 1 : at + 6] == [*(f"  line {at}" for at in range(16, 20)), "  boom"]
    assert "monitoring/w/stdout" in cli("show", "bad", "--all").stdout


@pytest.mark.once
def test_watch_has_the_last_lines_where_there_is_room(start, terminal):
    with start(name="one") as run:
        run.log_metrics({"loss": 1.0}, 0)
        run["monitoring/w/stdout"].append("printed last\n")
    assert "printed last" in terminal("watch", "one")[1]
    assert "printed last" not in terminal("watch", "one", LINES="8")[1]

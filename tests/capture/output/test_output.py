"""What is printed is recorded as it was written, and whoever prints notices nothing."""

# ruff: noqa: T201 - what is printed is what is tested

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import os
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed import in_order, left_out, points, printed
from recording import NOTHING, QUIET

from seamark import init_run
from seamark.capture.output.recording import Recording, cut, unfinished_from
from seamark.capture.output.source import FRAME_BYTES, Source, size_of
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.pictures.terminal import stripped

ON = QUIET | {"capture_stdout": True, "capture_stderr": True}
OFF = Secrets(masked=False)
ROOT = Path(".seamark")
HF = "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
KNOWN = "tG7kQ2pLx9ZbW4nV8sRdYf3m"


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("seamark-output")]


def of_runs(*runs) -> list[str]:
    return ["".join(stdout_of(run)) for run in runs]


def stdout_of(run) -> list[str]:
    found = points(ROOT, run.id).items()
    return next((texts for path, texts in found if path.endswith("/stdout")), [])


def printing(test):
    """Have a test print into a stream of the kind that a process has, as its ``stdout``.

    No fixture: pytest puts its own stream in place after those.
    """

    @functools.wraps(test)
    def run(**given):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(stream):
            test(stdout=stream, **given)

    signature = inspect.signature(test)
    kept = [each for each in signature.parameters.values() if each.name != "stdout"]
    run.__signature__ = signature.replace(parameters=kept)
    return run


def written(stream: io.TextIOWrapper) -> str:
    return stream.buffer.getvalue().decode()


@printing
def test_stream_stays_the_same_object_whose_write_is_put_back(stdout):
    """What no encoding takes and what is printed into a closed stream is treated as ever."""
    stdout.reconfigure(errors="backslashreplace")
    before = (type(stdout), stdout.buffer, stdout.encoding, stdout.isatty(), vars(stdout).copy())
    run = init_run(**ON)
    assert sys.stdout is stdout
    assert sys.stdout.write("a\n") == 2
    sys.stdout.writelines(["b\n", "c\n"])
    print("d", 1, sep="-", file=stdout)
    with pytest.raises(TypeError, match="str"):
        sys.stdout.write(b"no text")
    assert (type(stdout), stdout.buffer, stdout.encoding, stdout.isatty()) == before[:4]
    run.stop()
    assert vars(stdout) == before[4]
    assert written(stdout) == "a\nb\nc\nd-1\n"
    assert printed(ROOT) == {"stdout": "a\nb\nc\nd-1\n"}
    run = init_run(**ON)
    print("a\udc80b")  # half a surrogate pair
    stdout.close()
    with pytest.raises(ValueError, match="closed file"):
        print("unsaid")
    run.stop()
    (text,) = stdout_of(run)
    assert (text[:1], text[-2:]) == ("a", "b\n")
    init_run(**ON).stop()


@pytest.mark.parametrize(
    "given",
    [
        {"mode": "disabled"},
        {"capture_stdout": False},
        {"mode": "read-only", "with_id": "latest"},
        "rank 1",
    ],
)
@printing
def test_stream_is_untouched_where_nothing_is_recorded(stdout, given, monkeypatch):
    init_run(**QUIET).stop()
    if given == "rank 1":
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        given = {}
    run = init_run(**{**ON, "capture_stderr": False, **given})
    assert vars(stdout).get("write") is None
    assert threads() == []
    run.stop()
    assert points(ROOT) == {}


def test_run_that_begins_in_a_redirection_records_only_what_is_shown(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "__stdout__", stream)
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept):
        run = init_run(**ON)
        print("kept")
    print("shown")
    run.stop()
    assert (kept.getvalue(), written(stream)) == ("kept\n", "shown\n")
    assert printed(ROOT) == {"stdout": "shown\n"}


@printing
def test_run_at_rest_records_nothing_and_records_on_when_it_goes_on(stdout):
    run = init_run(**ON)
    print("before")
    run.session.ending.rest()
    assert threads() == []
    assert vars(stdout).get("write") is None
    print("between")
    run.set_state("running")
    print("after")
    run.stop()
    assert threads() == []
    assert printed(ROOT)["stdout"] == "before\nafter\n"


@printing
def test_output_is_recorded_soon_though_nothing_follows(stdout, monkeypatch):
    """Also the beginning of a secret, which may be a prompt."""
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    run = init_run(**ON)
    for text in ("one\n", f"it is {KNOWN[:6]}"):
        print(text, end="")
        while not "".join(stdout_of(run)).endswith(text):
            os.sched_yield()
    run.stop()
    assert of_runs(run) == [f"one\nit is {KNOWN[:6]}"]


@printing
def test_much_text_is_recorded_at_once(stdout, monkeypatch):
    """A burst of short lines would not find room for half a second."""
    monkeypatch.setattr("seamark.capture.output.recording._MAX_DELAY_S", 30.0)
    run = init_run(**ON)
    began = time.monotonic()
    for _ in range(2_000):
        print("line")
    while not stdout_of(run) and time.monotonic() < began + 15:
        time.sleep(0.01)
    assert stdout_of(run)
    run.stop()


@printing
def test_nested_runs_each_record_from_start_to_stop(stdout):
    first = init_run(**ON)
    print("one")
    second = init_run(**ON)
    assert threads() == ["seamark-output"]
    print("two")
    first.stop()
    print("three")
    second.stop()
    assert of_runs(first, second) == ["one\ntwo\n", "two\nthree\n"]
    assert written(stdout) == "one\ntwo\nthree\n"
    assert vars(stdout).get("write") is None


@printing
def test_others_may_replace_write_and_put_it_back_in_any_order(stdout):
    shouted = []

    def shout(stream):
        before = stream.write

        @functools.wraps(before)
        def write(text):
            shouted.append(text)
            return before(text)

        stream.write = write
        return before

    beneath = shout(stdout)
    run = init_run(**ON)
    ours = stdout.write
    before = shout(stdout)
    assert before is ours
    print("all")
    run.stop()  # theirs is on top: ours stays below it, and passes
    print("passed")
    second = init_run(**ON)
    print("again")
    stdout.write = before  # theirs is taken out, and what was put on it with it
    print("unseen")
    second.stop()
    stdout.write = beneath
    print("last")
    assert written(stdout) == "all\npassed\nagain\nunseen\nlast\n"
    assert of_runs(run, second) == ["all\n", "again\n"]
    words = [text for text in shouted if text != "\n"]
    assert words == ["all", "all", "passed", "passed", "again", "again", "unseen"]


class Logger:
    """The tee that people write themselves."""

    def __init__(self, stream):
        self.terminal, self.kept = stream, []

    def write(self, message, flush=False):  # noqa: FBT002
        self.terminal.write(message)
        self.kept.append((message, flush))

    def flush(self):
        self.terminal.flush()


class Forwarding:
    """A wrapper that passes attributes on to what it wraps, as tqdm's does."""

    def __init__(self, stream):
        object.__setattr__(self, "wrapped", stream)

    def __getattr__(self, name):
        return getattr(self.wrapped, name)

    def __setattr__(self, name, value):
        setattr(self.wrapped, name, value)

    def write(self, text):
        return self.wrapped.write(text)


class Closed(Logger):
    """A stream of a library whose connection has ended."""

    def __getattr__(self, name):
        raise ConnectionError(name)


class Slots:
    """An object that takes no attributes."""

    __slots__ = ("stream",)

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


@pytest.mark.parametrize(
    ("wrap", "recorded"),
    [
        *((kind, "text\n") for kind in (Logger, Forwarding, Closed)),
        *((kind, None) for kind in (Slots, lambda _: None)),
    ],
)
@printing
def test_stand_in_for_stdout_works_as_ever_and_is_recorded_where_it_can(
    stdout, monkeypatch, wrap, recorded
):
    wrapped = wrap(stdout)
    monkeypatch.setattr(sys, "stdout", wrapped)
    run = init_run(**ON)
    print("text")
    run.stop()
    assert written(stdout) == ("" if wrapped is None else "text\n")
    assert printed(ROOT).get("stdout") == recorded
    assert "write" not in vars(stdout)


@printing
def test_one_object_for_both_streams_is_recorded_once_with_its_own_arguments(stdout, monkeypatch):
    logger = Logger(stdout)
    monkeypatch.setattr(sys, "stdout", logger)
    monkeypatch.setattr(sys, "stderr", logger)
    run = init_run(**ON)
    logger.kept.clear()  # our own lines
    sys.stdout.write("a", flush=True)
    sys.stderr.write(message="b")
    assert logger.kept == [("a", True), ("b", False)]
    run.stop()
    assert printed(ROOT) == {"stdout": "ab"}


@pytest.fixture
def slow_streams(monkeypatch):
    """Both streams, of which nothing is recorded before the end."""
    monkeypatch.setattr("seamark.capture.output.recording._MAX_DELAY_S", 3600.0)
    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        monkeypatch.setattr(sys, name, stream)


def test_both_streams_are_recorded_in_the_order_of_writing(slow_streams):
    run = init_run(**ON)
    for epoch in range(10):
        print(f"epoch {epoch}")
        print("of it", file=sys.stderr)
        print(f"saved {epoch}", file=sys.stderr)
    run.stop()
    assert in_order(ROOT) == [
        turn
        for at in range(10)
        for turn in (("stdout", f"epoch {at}\n"), ("stderr", f"of it\nsaved {at}\n"))
    ]


def test_streams_that_take_turns_all_the_time_make_few_points(slow_streams):
    run = init_run(**ON)
    for at in range(300):
        print(f"out {at}")
        print(f"err {at}", file=sys.stderr)
    run.stop()
    found = points(ROOT)
    assert len(found) == 2
    for path, texts in found.items():
        assert len(texts) == 16
        assert "".join(texts) == "".join(f"{path[-3:]} {at}\n" for at in range(300))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@printing
def test_forked_child_records_nothing_unless_in_a_run_of_its_own(stdout):
    run = init_run(**ON)
    print("parent")
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            untouched = vars(stdout).get("write") is None and threads() == []
            print("child")
            own = init_run(project="of-child", **ON)
            print("own")
            own.stop()
            os.write(writing, f"{untouched} {of_runs(own)}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        assert told.read() == "True ['own\\n']"
    os.waitpid(child, 0)
    print("parent again")
    run.stop()
    assert of_runs(run) == ["parent\nparent again\n"]


@printing
def test_namespace_and_limit_are_arguments(stdout):
    with init_run(monitoring_namespace="mon", **ON | {"capture": NOTHING | {"limit": "100B"}}):
        print("a" * 60)
        print("b" * 60)
    ((path, texts),) = points(ROOT).items()
    assert path == "mon/stdout"
    assert "more than 100 bytes in total" in "".join(texts)


@printing
def test_much_text_of_several_threads_is_recorded_whole(stdout):
    run = init_run(**ON | {"capture": NOTHING | {"limit": "1GiB/min"}})
    print("x" * 300_000)

    def work(name):
        for number in range(2_000):
            print(f"{name} {number}\n", end="")

    working = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for each in working:
        each.start()
    for each in working:
        each.join()
    run.stop()
    texts = stdout_of(run)
    whole = "".join(texts)
    assert max(map(len, texts)) <= FRAME_BYTES
    assert sorted(whole.splitlines()) == sorted(written(stdout).splitlines())
    assert [line for line in whole.splitlines() if line[0] == "a"] == [
        f"a {number}" for number in range(2_000)
    ]


class Told(Source):
    """A source that gives what it is told to."""

    def __init__(self):
        self.text = ""

    def start(self):
        pass

    def take(self):
        text, self.text = self.text, ""
        return text

    stop = take


class Kept:
    """A run that keeps what is recorded."""

    def __init__(self):
        self.texts, self.atoms, self.masked = [], [], set()

    def append_text(self, path, text):
        self.texts.append(Secrets().text(text))

    def assign_quietly(self, atoms):
        self.atoms.append(dict(atoms))

    def note_masked(self, paths):
        self.masked.update(paths)


def recorder(limit="1GiB/min", secrets=OFF):
    """Return a recording that is told what to record, what it was recorded in, and its clock."""
    clock, run = [0.0], Kept()
    given = {"limit": Limit.of(limit), "secrets": secrets, "clock": lambda: clock[0]}
    return Recording(run, "out", Told(), **given), run, clock


def record(recording: Recording, text: str) -> None:
    recording.source.text = text
    recording.record(recording.source.take())
    recording.settle()


def record_in(pieces, **given) -> Kept:
    """Record pieces, each with time to be recorded by itself."""
    recording, run, _ = recorder(**given)
    for piece in pieces:
        record(recording, piece)
    recording.finish()
    return run


ESCAPES = ["\x1b[A", "\x1b[2K", "\x1b[31m", "\x1b[0m", "\r\n", "é", "\x1b]8;;x\x07", "👩‍🔬"]
SHOWN = st.sampled_from([*"ab \n\r\b\t", *ESCAPES])


@given(st.lists(SHOWN, max_size=60).map("".join), st.lists(st.integers(0, 60), max_size=8))
def test_points_together_look_like_the_text_however_it_is_cut(text, places):
    ends = sorted({min(place, len(text)) for place in places})
    starts = [0, *ends]
    pieces = [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]
    run = record_in(pieces)
    assert stripped("".join(run.texts)) == stripped(text)
    assert all(unfinished_from(point) == len(point) for point in run.texts[:-1])


@given(st.text(st.sampled_from("aé 👩\u200d\n\r\t\u0301\udc80"), max_size=300), st.integers(0, 90))
def test_cut_takes_no_more_than_it_may_and_ends_with_a_line_if_one_fits(text, most):
    taken = cut(text, most)
    assert size_of(text[:taken]) <= most
    if taken < len(text) and "\n" in text[:taken]:
        assert text[taken - 1] == "\n"


@pytest.mark.parametrize("whole", ["\x1b[38;5;12m", "é"])
def test_escape_or_character_is_not_cut_in_two(whole):
    text = "x" * 20 + whole + "y" * 20
    assert {cut(text, most) for most in range(20, 20 + size_of(whole))} == {20}


PIECES = {
    "token=": ["token=", "hunter2secretA9", "\n"],
    "a name in two": ["my to", "ken=hunter2secretA9 and more\n"],
    "after a bar": ["50%\r", "60% token=", "hunter2secretA9\n"],
    "after a long line": ["w " * 2100 + "token=", "hunter2secretA9\n"],
    "a long token": ["x sk-proj-" + "aB3" * 40, "hunter2secretA9\n"],
    "a pause in a name": ["my passw", "", "ord: hun", "", "ter2secretA9", "", "\n"],
    "a word before": ["loss 0.5 word", "", "Authorization: Bearer hunter2secretA9\n"],
    "letters before": ["ab", "", "sk-proj-" + "aB3" * 12 + "hunter2\n"],
    "an address": ["get https://bob:hunter2", "secretA9@host/x\n"],
    "coloured": ["\x1b[33mtoken\x1b[0m=\x1b[35mhunter2secretA9\x1b[0m\n"],
    "after what is recorded for a secret": ["*** (value looks like a secret)\ntoken=hunter2A9\n"],
    "coloured, in two": ["\x1b[33mtoken\x1b[0m=", "\x1b[35mhunter2secretA9\x1b[0m\n"],
}


def test_unfinished_lines_are_recorded_while_they_grow():
    """They survive a kill: all but the state that a bar has now, if it names a secret."""
    recording, run, _ = recorder(secrets=Secrets())
    for piece in ("loading", " tokenizer", "...", ""):
        recording.record(piece)
    assert "".join(run.texts) == "loading tokenizer..."
    states = [f"\r{step}% {step} tokens/s" for step in range(9)]
    for state in states:
        recording.record(state)
    recording.record("")
    assert "".join(run.texts) == "loading tokenizer..." + "".join(states[:8]) + "\r"
    recording.finish()
    assert "".join(run.texts) == "loading tokenizer..." + "".join(states)


def test_text_without_newlines_is_recorded_but_for_the_last_4096_characters():
    recording, run, _ = recorder(secrets=Secrets())
    pieces = [f"token {number} " for number in range(2_000)]
    for number, piece in enumerate(pieces, 1):
        recording.record(piece)
        assert len("".join(pieces[:number])) - sum(map(len, run.texts)) <= 4096
    recording.finish()
    assert "".join(run.texts) == "".join(pieces)


def test_rest_of_a_secret_is_hidden():
    run = record_in([f"login {HF[:12]}", HF[12:], " ok\n", "next\n"], secrets=Secrets())
    text = "".join(run.texts)
    assert HF[12:] not in text
    assert HF[16:24] not in text
    assert text.endswith(" ok\nnext\n")


def test_private_key_that_never_ends_hides_no_training():
    lines = [f"step {number} loss 0.5\n" for number in range(2_000)]
    run = record_in(["-----BEGIN PRIVATE KEY-----\n", *lines], secrets=Secrets())
    assert "".join(run.texts).endswith("".join(lines[-1000:]))


def test_secret_is_not_cut_at_the_end_of_a_frame():
    for before in range(FRAME_BYTES - 60, FRAME_BYTES, 7):
        run = record_in(["x" * (before - 1) + f" {HF} {HF}\n"], secrets=Secrets())
        assert len(run.texts) > 1
        assert HF[:8] not in "".join(run.texts)


PRINTED = {
    "logging": "INFO:root:password: {}\n",
    "a sentence": "Using token: {}\n",
    "an equals sign": "10:11 - auth - DEBUG - api_key={} ok\n",
    "blanks": "x password = {}\n",
    "an arrow": "x client_secret -> {}\n",
    "is": "The secret is: {}\n",
    "whose": "x password for bob: {}\n",
    "an index": "x args['token'] = '{}'\n",
    "two words": "my API key: {}\n",
    "a section": "[main] secret_key : {}\n",
    "no blank": "x token:{}\n",
    "quoted": "x token: '{}'\n",
    "a representation": "Config(token='{}', lr=3)\n",
    "a number": "x password: 12345678{}\n",
    "a box": "│ token │ {} │\n",
    "a box that is coloured": "│ \x1b[1mtoken\x1b[0m │ {} │\n",
    "a folded string": "\x1b[1mx tokens\x1b[0m: [\n'{}A9Qx7\n{}'\n]\n",
    "a table": "| API key | {} |\n",
    "a list": '{\n  "tokens": [\n    "{}A9Qx7"\n  ]\n}\n',
    "a list of keys": "x api_keys = ['{}', 'b']\n",
    "a mapping": "x secrets: {'openai': '{}'}\n",
    "a setting": "[{'name': 'DB_PASSWORD', 'value': '{}'}]\n",
    "a setting of lines": "- name: DB_PASSWORD\n  value: {}\n",
    "a cookie": "x Cookie: session={}; path\n",
    "a traceback": """Traceback (most recent call last):
  File "/x/y.py", line 3, in <module>
    raise RuntimeError("login failed: user bob, password: {} token: A9{}")
RuntimeError: login failed: user bob, password: {} token: A9{}
""",
    "a zero-width space": "x pa\u200bssword: {}\n",
    "a no-break space": "x password:\u00a0{}\n",
    "a NUL": "x to\x00ken: {}\n",
    "a colour in 8 bits": "x \x9b31mtoken\x9b0m: \x9b1m{}\x9b0m\n",
    "SSH2": "---- BEGIN SSH2 PRIVATE KEY ----\n{}\n---- END SSH2 PRIVATE KEY ----\n",
}


@pytest.mark.parametrize(
    "pieces",
    [*PIECES.values(), *([text.replace("{}", "hunter2secret")] for text in PRINTED.values())],
    ids=[*PIECES, *PRINTED],
)
def test_value_behind_a_secret_name_is_hidden(pieces):
    assert "hunter2" in "".join(pieces)
    plain = "\x1b[1mtoken\x1b[0m 3 \u00a0 👩\u200d🔬\n"
    text = "".join(record_in([*pieces, plain], secrets=Secrets()).texts)
    assert "hunter2" not in text
    assert "***" in text
    assert text.endswith(plain)


BODY = ["q8Zk" * 16 + "\n"] * 9
KEYS = {
    "PGP": ["-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----"],
    "OpenSSH": ["-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"],
    "PuTTY": ["PuTTY-User-Key-File-2: ssh-rsa", "Private-MAC: 0a1b"],
}


def test_private_key_in_colours_is_hidden():
    lines = ["-----BEGIN PRIVATE KEY-----\n", *BODY, "-----END PRIVATE KEY-----\n"]
    key = "".join(f"\x1b[32m{line}\x1b[0m" for line in lines)
    text = "".join(record_in(["before\n", key, "after\n"], secrets=Secrets()).texts)
    assert "q8Zk" not in text
    assert "***" in text
    assert text.endswith("after\n")


@pytest.mark.parametrize("cuts", [None, [40], [10, 40], [40, 200, 500], [690]])
@pytest.mark.parametrize(("begin", "end"), KEYS.values(), ids=KEYS)
def test_private_key_is_hidden_though_it_is_printed_with_pauses(begin, end, cuts):
    lines = ["before\n", f"{begin}\n", *BODY, f"{end}\n", "after\n"]
    pieces = lines
    if cuts is not None:
        text = "".join(lines)
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    recorded = "".join(record_in(pieces, secrets=Secrets()).texts)
    assert "q8Zk" not in recorded
    assert recorded.startswith("before\n")
    assert recorded.endswith("after\n")


def test_known_value_is_hidden_letter_by_letter_and_where_there_are_no_blanks(monkeypatch):
    """What may become one waits for the rest, as long as there is more in each period."""
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    run = record_in(["it is ", KNOWN[:4], *KNOWN[4:], " ok\n"], secrets=Secrets())
    assert "".join(run.texts) == "it is *** ok\n"
    for before in range(FRAME_BYTES - len(KNOWN), FRAME_BYTES, 5):
        run = record_in(["x" * before + KNOWN + "y" * 9 + "\n"], secrets=Secrets())
        assert "".join(run.texts) == "x" * before + "***" + "y" * 9 + "\n"


def test_beginning_of_a_known_value_waits_for_one_period(monkeypatch):
    """It may be a word that is shown to somebody who waits for it."""
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    recording, run, _ = recorder(secrets=Secrets())
    recording.source.text = f"it is {KNOWN[:6]}"
    recording.record(recording.source.take())
    assert run.texts == ["it is "]
    recording.record(recording.source.take())
    assert run.texts == ["it is ", KNOWN[:6]]


@printing
def test_hidden_output_is_listed_without_a_warning_in_the_middle(stdout, caplog):
    run = init_run(**ON)
    print("token=hunter2secretA9")
    run.session.ending.rest()
    assert caplog.text == ""
    run["params/api_token"] = "hunter2secretA9"
    run.stop()
    assert "params/api_token" in caplog.text
    assert printed(ROOT)["stdout"] == "token=***\n"
    again = init_run(with_id=run.id, mode="read-only")
    assert again["sys/masked"].fetch() == {*points(ROOT), "params/api_token"}


def of_marks(text: str) -> tuple[str, list[str]]:
    """Return a text without the marks of what is left out, and the marks."""
    lines = text.splitlines(keepends=True)
    marks = [line for line in lines if line.startswith("[seamark: ")]
    return "".join(line for line in lines if line not in marks), marks


def test_text_beyond_the_limit_of_a_minute_is_left_out_counted_and_marked():
    recording, run, clock = recorder("1KiB/min")
    lines = [f"line {number:03}\n" for number in range(300)]
    record(recording, "".join(lines))
    assert run.atoms == [{"out_left_out": 2700 - 1017}]
    clock[0] = 59.9
    record(recording, "more\n")
    clock[0] = 60.0
    record(recording, "a minute later\n")
    recording.finish()
    text, marks = of_marks("".join(run.texts))
    assert text == "".join(lines[:113]) + "a minute later\n"
    assert marks == ["[seamark: more than 1 KiB in one minute; left out here: 1,688 bytes]\n"]
    assert recording.left_out == 1688
    assert run.atoms[-1] == {"out_left_out": 1688}


def test_total_is_never_exceeded():
    recording, run, clock = recorder("1KiB/min, 2KiB")
    for minute in range(10):
        clock[0] = 60.0 * minute
        record(recording, ("x" * 99 + "\n") * 9)
    recording.finish()
    text, marks = of_marks("".join(run.texts))
    assert len(text) + recording.left_out == 9000
    assert len(text) <= 2048
    assert marks == [
        f"[seamark: more than 2 KiB in total; left out here: {recording.left_out:,} bytes]\n"
    ]


@pytest.mark.once
def test_text_that_is_left_out_for_hours_takes_no_memory():
    recording, run, clock = recorder("20KiB/min")
    run.append_text = run.assign_quietly = lambda *_: None
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]
    for second in range(7_200):
        clock[0] = float(second)
        record(recording, ("x" * 79 + "\n") * (2_000 if second % 1800 == 0 else 6))
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recording.left_out > 1_000_000
    assert held - begun < 200_000
    assert peak - begun < 3_000_000


def test_progress_bar_counts_with_its_last_state_only():
    recording, run, clock = recorder("1KiB/min")
    for second in range(60):
        clock[0] = float(second)
        record(recording, "".join(f"\r{second:02}.{part:02} done" for part in range(100)))
    recording.finish()
    assert recording.left_out == 0
    assert stripped("".join(run.texts)) == "59.99 done"


def test_progress_bar_stays_beside_our_own_lines():
    recording, run, _ = recorder()
    recording.record("50% done\r")
    recording.source.broken = "gone"
    recording.settle()
    assert "".join(run.texts) == "50% done\r\n[seamark: not recorded from here: gone]\n"


def test_text_that_is_not_recorded_in_time_at_the_end_is_counted():
    recording, run, clock = recorder()
    recording.until = clock[0] = 2.0
    recording.source.text = "x" * 99 + "\n"
    recording.finish()
    assert run.atoms == [{"out_left_out": 100}]
    assert "printed faster than it could be recorded; left out here: 100 bytes" in "".join(
        run.texts
    )


@printing
def test_text_that_finds_no_room_while_the_disk_hangs_is_counted(stdout):
    run = init_run(**ON | {"capture": NOTHING | {"limit": "1GiB/min"}})
    lock = run.session.recorder.writer._guard.lock  # as long as a disk that hangs is written to
    line = "x" * 1023 + "\n"
    with lock:
        for _ in range(20_000):
            print(line, end="")
    run.stop()
    text, marks = of_marks(printed(ROOT)["stdout"])
    (counted,) = left_out(ROOT)["stdout_left_out"][-1:]
    assert len(text) + counted == 20_000 * 1024
    assert len(text) < 8 << 20
    assert any("printed faster than it could be recorded" in mark for mark in marks)

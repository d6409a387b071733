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
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from printed import in_order, left_out, points, printed
from recording import NOTHING, QUIET

import seamark
from seamark import init_run
from seamark.capture.output.hiding import hide
from seamark.capture.output.recording import Recording, cut, unfinished_from
from seamark.capture.output.source import FRAME_BYTES, WRITTEN, Source, size_of
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.pictures.terminal import stripped

ON = QUIET | {"capture_stdout": True, "capture_stderr": True}
OFF = Secrets(masked=False)
ROOT = Path(".seamark")
HF = "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("seamark-output")]


def of_runs(*runs) -> list[str]:
    """Return what each run recorded of stdout."""
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


# --------------------------------------------------------------------- the stream


@printing
def test_the_stream_stays_what_it_is(stdout):
    """The same object, of the same type; its write is as before once nobody records."""
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
def test_where_nothing_is_recorded_the_stream_is_untouched(stdout, given, monkeypatch):
    """Disabled, switched off, opened for reading, or rank 1 of a run that rank 0 records."""
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


def test_a_run_that_begins_in_a_redirection_records_what_is_shown(monkeypatch):
    """What goes to a string nobody sees; what is printed when that is over is recorded."""
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
def test_a_run_at_rest_records_nothing_and_goes_on(stdout):
    """What is printed before the end is in; the thread is gone; a run that goes on records on."""
    run = init_run(**ON)
    print("before")
    run.session.rest()
    assert threads() == []
    assert vars(stdout).get("write") is None
    print("between")
    run.set_state("running")
    print("after")
    run.stop()
    assert threads() == []
    assert printed(ROOT)["stdout"] == "before\nafter\n"


@printing
def test_the_thread_lies_down_while_nothing_is_printed(stdout):
    """It waits for whoever prints next, without a timeout; a print gets it up."""
    run = init_run(**ON)
    for word in ("one", "two"):
        print(word)
        while not (
            stdout_of(run) and f"{word}\n" in "".join(stdout_of(run)) and WRITTEN.bell.asleep
        ):
            os.sched_yield()
    run.stop()
    assert of_runs(run) == ["one\ntwo\n"]


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
def test_others_that_replace_write_may_come_and_go_in_any_order(stdout):
    """Each print is written once, whoever takes whose function out."""
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


@printing
def test_what_is_redirected_is_not_printed(stdout):
    """Text that goes elsewhere is no output; a stream that is put in place later is left alone."""
    run = init_run(**ON)
    with contextlib.redirect_stdout(io.StringIO()) as elsewhere:
        print("elsewhere")
    print("here")
    run.stop()
    assert elsewhere.getvalue() == "elsewhere\n"
    assert printed(ROOT)["stdout"] == "here\n"


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
    [(Logger, "text\n"), (Forwarding, "text\n"), (Slots, None), (lambda _: None, None)],
)
@printing
def test_what_stands_in_for_stdout_works_as_ever(stdout, monkeypatch, wrap, recorded):
    """Recorded where the object allows it, else left as it is; none at all is fine too."""
    wrapped = wrap(stdout)
    monkeypatch.setattr(sys, "stdout", wrapped)
    run = init_run(**ON)
    print("text")
    run.stop()
    assert written(stdout) == ("" if wrapped is None else "text\n")
    assert printed(ROOT).get("stdout") == recorded
    assert "write" not in vars(stdout)


@printing
def test_arguments_of_somebody_elses_write_are_passed_on(stdout, monkeypatch):
    monkeypatch.setattr(sys, "stdout", logger := Logger(stdout))
    run = init_run(**ON)
    sys.stdout.write("a", flush=True)
    sys.stdout.write(message="b")
    run.stop()
    assert logger.kept == [("a", True), ("b", False)]
    assert printed(ROOT)["stdout"] == "ab"


@printing
def test_one_object_for_both_streams_is_recorded_once(stdout, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stdout)
    run = init_run(**ON)
    print("out")
    print("err", file=sys.stderr)
    run.stop()
    assert printed(ROOT) == {"stdout": "out\nerr\n"}


def test_both_streams_are_recorded_in_the_order_of_writing(monkeypatch):
    """However often they take turns, many times within an interval; the times in it rise."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setattr("seamark.capture.output.recording._EVERY_S", 3600.0)
    run = init_run(**ON)
    for epoch in range(10):
        print(f"epoch {epoch}")
        print("of it", file=sys.stderr)
        print(f"saved {epoch}", file=sys.stderr)
    run.stop()
    expected = [f"{epoch}\n" for epoch in range(10)]
    assert in_order(ROOT) == [
        turn
        for each in expected
        for turn in (("stdout", f"epoch {each}"), ("stderr", f"of it\nsaved {each}"))
    ]


def test_streams_that_take_turns_all_the_time_make_few_points(monkeypatch):
    """Beyond some, what is new is recorded whole; nothing is missing."""
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setattr("seamark.capture.output.recording._EVERY_S", 3600.0)
    run = init_run(**ON)
    for at in range(300):
        print(f"out {at}")
        print(f"err {at}", file=sys.stderr)
    run.stop()
    found = {path.rpartition("/")[2]: texts for path, texts in points(ROOT).items()}
    for name, word in (("stdout", "out"), ("stderr", "err")):
        assert len(found[name]) == 16
        assert "".join(found[name]) == "".join(f"{word} {at}\n" for at in range(300))


@printing
def test_a_closed_stream_raises_as_ever_and_nothing_of_ours(stdout):
    """Also a run that begins and ends with one."""
    run = init_run(**ON)
    print("said")
    stdout.close()
    with pytest.raises(ValueError, match="closed file"):
        print("unsaid")
    run.stop()
    init_run(**ON).stop()
    assert printed(ROOT)["stdout"] == "said\n"


@printing
def test_what_no_encoding_takes_is_recorded(stdout):
    """Half a surrogate pair, which the stream was told to escape."""
    stdout.reconfigure(errors="backslashreplace")
    run = init_run(**ON)
    print("a\udc80b")
    run.stop()
    (text,) = stdout_of(run)
    assert text.startswith("a")
    assert text.endswith("b\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@printing
def test_a_forked_child_records_nothing_and_prints(stdout):
    """Nothing is patched there, and a run that the child begins itself records as any other."""
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
def test_a_namespace_of_ones_own(stdout):
    run = init_run(monitoring_namespace="mon", **ON)
    print("text")
    run.stop()
    assert points(ROOT) == {"mon/stdout": ["text\n"]}


@printing
def test_much_at_once_is_all_there(stdout):
    """More than a frame, in one text and in many, from several threads."""
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


# --------------------------------------------------------------------- pieces


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
    return (
        Recording(
            run, "out", Told(), limit=Limit.of(limit), secrets=secrets, clock=lambda: clock[0]
        ),
        run,
        clock,
    )


def record(recording: Recording) -> None:
    """Record what its source has."""
    recording.record(recording.source.take())
    recording.settle()


def record_in(pieces, **given) -> Kept:
    """Record pieces, each with time to be recorded by itself."""
    recording, run, _ = recorder(**given)
    for piece in pieces:
        recording.source.text = piece
        record(recording)
    recording.finish()
    return run


SHOWN = st.sampled_from(
    [
        *"ab \n\r\b\t",
        "\x1b[A",
        "\x1b[2K",
        "\x1b[31m",
        "\x1b[0m",
        "\r\n",
        "é",
        "\x1b]8;;x\x07",
        "👩‍🔬",
    ]
)


@given(st.lists(SHOWN, max_size=60).map("".join), st.lists(st.integers(0, 60), max_size=8))
def test_however_text_is_written_its_points_look_like_it(text, places):
    """Cut into any pieces, in the middle of escapes too, points together look like the whole."""
    ends = sorted({min(place, len(text)) for place in places})
    starts = [0, *ends]
    pieces = [text[start:end] for start, end in zip(starts, [*ends, len(text)], strict=True)]
    run = record_in(pieces)
    assert stripped("".join(run.texts)) == stripped(text)
    assert all(unfinished_from(point) == len(point) for point in run.texts[:-1])


@given(st.text(st.sampled_from("aé 👩\u200d\n\r\t\u0301\udc80"), max_size=300), st.integers(0, 90))
def test_a_cut_takes_no_more_than_it_may(text, most):
    """At an end of a line if one fits; and the pieces are the text."""
    taken = cut(text, most)
    assert size_of(text[:taken]) <= most
    if taken < len(text) and "\n" in text[:taken]:
        assert text[taken - 1] == "\n"


@pytest.mark.parametrize("whole", ["\x1b[38;5;12m", "é"])
def test_nothing_is_cut_in_two(whole):
    text = "x" * 20 + whole + "y" * 20
    for most in range(20, 20 + size_of(whole)):
        assert cut(text, most) == 20


# --------------------------------------------------------------------- secrets

SECRETS = {
    "token=": ["token=", "hunter2secretA9", "\n"],
    "in one": ["token=hunter2secretA9\n"],
    "a name in two": ["my to", "ken=hunter2secretA9 and more\n"],
    "after a bar": ["50%\r", "60% token=", "hunter2secretA9\n"],
    "after a long line": ["w " * 2100 + "token=", "hunter2secretA9\n"],
    "a long token": ["x sk-proj-" + "aB3" * 40, "hunter2secretA9\n"],
    "a pause in a name": ["my passw", "", "ord: hun", "", "ter2secretA9", "", "\n"],
    "a word before": ["loss 0.5 word", "", "Authorization: Bearer hunter2secretA9\n"],
    "letters before": ["ab", "", "sk-proj-" + "aB3" * 12 + "hunter2\n"],
    "an address": ["get https://bob:hunter2", "secretA9@host/x\n"],
    "coloured": ["\x1b[33mtoken\x1b[0m=\x1b[35mhunter2secretA9\x1b[0m\n"],
    "coloured, in two": ["\x1b[33mtoken\x1b[0m=", "\x1b[35mhunter2secretA9\x1b[0m\n"],
}


@pytest.mark.parametrize("pieces", SECRETS.values(), ids=SECRETS)
def test_a_name_hides_its_value_across_pieces(pieces):
    """However it is coloured, and however long it took to print it."""
    run = record_in([*pieces, "plain words\n"], secrets=Secrets())
    text = "".join(run.texts)
    assert "hunter2" not in text
    assert "***" in text
    assert text.endswith("plain words\n")


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


def test_what_is_printed_for_hours_without_a_newline_is_recorded():
    """At most 4,096 characters wait."""
    recording, run, _ = recorder(secrets=Secrets())
    pieces = [f"token {number} " for number in range(2_000)]
    for number, piece in enumerate(pieces, 1):
        recording.record(piece)
        assert len("".join(pieces[:number])) - sum(map(len, run.texts)) <= 4096
    recording.finish()
    assert "".join(run.texts) == "".join(pieces)


def test_the_rest_of_a_secret_is_hidden():
    """What was printed of it before it was one is there; what came later is not."""
    run = record_in([f"login {HF[:12]}", HF[12:], " ok\n", "next\n"], secrets=Secrets())
    text = "".join(run.texts)
    assert HF[12:] not in text
    assert HF[16:24] not in text
    assert text.endswith(" ok\nnext\n")


def test_a_key_that_never_ends_hides_no_training():
    lines = [f"step {number} loss 0.5\n" for number in range(2_000)]
    run = record_in(["-----BEGIN PRIVATE KEY-----\n", *lines], secrets=Secrets())
    assert "".join(run.texts).endswith("".join(lines[-1000:]))


def test_a_secret_is_not_cut_at_the_end_of_a_frame():
    """A line that is longer than a point may be is cut between words."""
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
    "is, at the start": "token is: {}; more\n",
    "an index": "x args['token'] = '{}'\n",
    "two words": "my API key: {}\n",
    "a section": "[main] secret_key : {}\n",
    "no blank": "x token:{}\n",
    "quoted": "x token: '{}'\n",
    "a representation": "Config(token='{}', lr=3)\n",
    "a tail": "login failed: user bob, password: {} (again)\n",
    "a number": "x password: 12345678{}\n",
    "a box": "│ token │ {} │\n",
    "a box that is coloured": "│ \x1b[1mtoken\x1b[0m │ {} │\n",
    "a folded string": "\x1b[1mx tokens\x1b[0m: [\n'{}A9Qx7\n{}'\n]\n",
    "a table": "| API key | {} |\n",
    "a list": '{{\n  "tokens": [\n    "{}A9Qx7"\n  ]\n}}\n',
    "a list of keys": "x api_keys = ['{}', 'b']\n",
    "a mapping": "x secrets: {{'openai': '{}'}}\n",
    "a setting": "[{{'name': 'DB_PASSWORD', 'value': '{}'}}]\n",
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
    "PGP": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n=a\n-----END PGP PRIVATE KEY BLOCK-----\n",
    "PuTTY": "PuTTY-User-Key-File-3: ssh-rsa\nComment: x\n{}\nPrivate-MAC: 0a1b\n",
    "SSH2": "---- BEGIN SSH2 PRIVATE KEY ----\n{}\n---- END SSH2 PRIVATE KEY ----\n",
}


@pytest.mark.parametrize("text", PRINTED.values(), ids=PRINTED)
def test_what_follows_a_name_anywhere_is_hidden(text):
    """A line of a log has a prefix; tables, lists and tracebacks write names in their own ways."""
    secret = "hunter2secret"
    text = text.replace("{{", "{").replace("}}", "}").replace("{}", secret)
    assert secret in text
    run = record_in([text, "epoch 1\n"], secrets=Secrets())
    assert "hunter2" not in "".join(run.texts)
    assert "".join(run.texts).endswith("epoch 1\n")


@pytest.mark.parametrize(
    "text",
    [
        "tokens: 512\n",
        "INFO tokens: 512, token: 17/100 loss: 0.3\n",
        "INFO token = 3.5e-3, token: 100%, token: 12.5ms, token: 1,024\n",
        "num_tokens=1024 tokens/s: 12.5 pad_token: <pad> eos token: </s> pad token: [PAD]\n",
        "token 17/100, secret sauce, Password: \n",
        "Password: \nnext line\n",
        "INFO token: missing, Generated token: Hello, credentials: none\n",
        "INFO def login(password: str, token: Optional[str] = None):\n",
        "val_token_accuracy=0.91 sort key: name key: value pass: 3\n",
        "Tokenizer(name='x', pad_token='<pad>', unk_token='<unk>')\n",
        "| token | count | key |\n|---|---|---|\n| the | 512 | 7 |\n",
        "tokens: ['the', 'cat', 'sat'] tensor([[101]])\n",
        "tokens: tensor([[  101,  2023]])\n",
        "\x1b[1mtoken\x1b[0m 3 \u00a0 👩\u200d🔬 a\bb\n",
    ],
)
def test_a_log_stays_readable(text):
    """Numbers, words, markers and types are no secrets, and a prompt has none."""
    hidden = Secrets().text(hide(text, Secrets()))
    assert hidden == text


BODY = ["q8Zk" * 16 + "\n"] * 9
KEYS = {
    "PGP": ["-----BEGIN PGP PRIVATE KEY BLOCK-----", "-----END PGP PRIVATE KEY BLOCK-----"],
    "OpenSSH": ["-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"],
    "PuTTY": ["PuTTY-User-Key-File-2: ssh-rsa", "Private-MAC: 0a1b"],
}


@pytest.mark.parametrize("cuts", [None, [40], [10, 40], [40, 200, 500], [690]])
@pytest.mark.parametrize(("begin", "end"), KEYS.values(), ids=KEYS)
def test_a_private_key_is_hidden_though_it_is_printed_with_pauses(begin, end, cuts):
    """After each line, or anywhere; what follows it is not hidden."""
    lines = ["before\n", f"{begin}\n", *BODY, f"{end}\n", "after\n"]
    pieces = lines
    if cuts is not None:
        text = "".join(lines)
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    recorded = "".join(record_in(pieces, secrets=Secrets()).texts)
    assert "q8Zk" not in recorded
    assert recorded.startswith("before\n")
    assert recorded.endswith("after\n")


KNOWN = "tG7kQ2pLx9ZbW4nV8sRdYf3m"


def test_a_known_value_is_hidden_letter_by_letter(monkeypatch):
    """What may become one waits for the rest, as long as there is more in each period."""
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    run = record_in(["it is ", KNOWN[:4], *KNOWN[4:], " ok\n"], secrets=Secrets())
    assert "".join(run.texts) == "it is *** ok\n"


def test_the_beginning_of_a_known_value_waits_for_one_period(monkeypatch):
    """It may be a word that is shown to somebody who waits for it."""
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    recording, run, _ = recorder(secrets=Secrets())
    recording.source.text = f"it is {KNOWN[:6]}"
    recording.record(recording.source.take())
    assert (run.texts, recording.holds) == (["it is "], True)
    recording.record(recording.source.take())
    assert (run.texts, recording.holds) == (["it is ", KNOWN[:6]], False)


@printing
def test_what_waited_is_recorded_though_nothing_follows(stdout, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    run = init_run(**ON)
    print(f"it is {KNOWN[:6]}", end="")
    while "".join(stdout_of(run)) != f"it is {KNOWN[:6]}":
        os.sched_yield()
    run.stop()


def test_a_known_value_is_not_cut_where_there_are_no_blanks(monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", KNOWN)
    for before in range(FRAME_BYTES - len(KNOWN), FRAME_BYTES, 5):
        run = record_in(["x" * before + KNOWN + "y" * 9 + "\n"], secrets=Secrets())
        assert "".join(run.texts) == "x" * before + "***" + "y" * 9 + "\n"


def test_what_looks_hidden_hides_nothing_else():
    """A text that begins with what is recorded for a secret is looked through all the same."""
    run = record_in([f"*** (value looks like a secret)\n{HF}\n"], secrets=Secrets())
    assert HF not in "".join(run.texts)


@printing
def test_nobody_is_warned_in_the_middle_of_what_is_printed(stdout, caplog):
    """A secret that is printed is hidden and listed; what a person records is warned of."""
    run = init_run(**ON)
    print("token=hunter2secretA9")
    run.session.rest()
    assert caplog.text == ""
    run["params/api_token"] = "hunter2secretA9"
    run.stop()
    assert "params/api_token" in caplog.text
    assert printed(ROOT)["stdout"] == "token=***\n"
    again = init_run(with_id=run.id, mode="read-only")
    assert again["sys/masked"].fetch() == {*points(ROOT), "params/api_token"}


# --------------------------------------------------------------------- how much


def of_marks(text: str) -> tuple[str, list[str]]:
    """Return a text without the marks of what is left out, and the marks."""
    lines = text.splitlines(keepends=True)
    marks = [line for line in lines if line.startswith("[seamark: ")]
    return "".join(line for line in lines if line not in marks), marks


def test_what_exceeds_the_limit_is_left_out_counted_and_marked():
    """The first of a minute is there; the next minute is recorded again."""
    recording, run, clock = recorder("1KiB/min")
    lines = [f"line {number:03}\n" for number in range(300)]
    recording.source.text = "".join(lines)
    record(recording)
    assert run.atoms == [{"out_left_out": 2700 - 1017}]
    clock[0] = 59.9
    recording.source.text = "more\n"
    record(recording)
    clock[0] = 60.0
    recording.source.text = "a minute later\n"
    record(recording)
    recording.finish()
    text, marks = of_marks("".join(run.texts))
    assert text == "".join(lines[:113]) + "a minute later\n"
    assert marks == ["[seamark: more than 1 KiB in one minute; left out here: 1,688 bytes]\n"]
    assert recording.left_out == 1688
    assert run.atoms[-1] == {"out_left_out": 1688}


def test_a_total_is_never_exceeded():
    """After it nothing is recorded, and the end says how much that was."""
    recording, run, clock = recorder("1KiB/min, 2KiB")
    for minute in range(10):
        clock[0] = 60.0 * minute
        recording.source.text = ("x" * 99 + "\n") * 9
        record(recording)
    recording.finish()
    text, marks = of_marks("".join(run.texts))
    assert len(text) + recording.left_out == 9000
    assert len(text) <= 2048
    assert marks == [
        f"[seamark: more than 2 KiB in all; left out here: {recording.left_out:,} bytes]\n"
    ]


@pytest.mark.once
def test_ten_hours_take_no_memory_and_every_byte_is_counted():
    """A bar, lines, and once in a while far too much; nothing grows."""
    recording, run, clock = recorder("20KiB/min")
    given = recorded = 0
    in_minute: dict[int, int] = {}

    def count(path, text):
        nonlocal recorded
        plain = "" if "[seamark: " in text or text.endswith(" bytes]\n") else text
        recorded += len(plain)
        minute = int(clock[0] // 60)
        in_minute[minute] = in_minute.get(minute, 0) + len(plain)

    run.append_text = count
    run.assign_quietly = lambda atoms: None
    line = "x" * 79 + "\n"
    tracemalloc.start()
    begun = tracemalloc.get_traced_memory()[0]
    for second in range(36_000):
        clock[0] = float(second)
        text = line * (2 if second % 1800 else 2_000)
        given += len(text)
        recording.source.text = text
        record(recording)
    recording.finish()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert recorded + recording.left_out == given
    assert max(in_minute.values()) <= 20 << 10
    assert recording.left_out > 2_000_000
    assert held - begun < 200_000
    assert peak - begun < 3_000_000


def test_a_bar_counts_with_its_last_state_only():
    """What is overwritten within a point costs nothing of the limit."""
    recording, run, clock = recorder("1KiB/min")
    for second in range(60):
        clock[0] = float(second)
        recording.source.text = "".join(f"\r{second:02}.{part:02} done" for part in range(100))
        record(recording)
    recording.finish()
    assert recording.left_out == 0
    assert stripped("".join(run.texts)) == "59.99 done"


def test_a_bar_stays_beside_what_is_said_after_it():
    recording, run, _ = recorder()
    recording.record("50% done\r")
    recording.source.broken = "gone"
    recording.settle()
    assert "".join(run.texts) == "50% done\r\n[seamark: not recorded from here: gone]\n"


def test_what_is_not_recorded_in_time_at_the_end_is_counted():
    """The end of a run does not wait for text of which there is too much."""
    recording, run, clock = recorder()
    recording.until = clock[0] = 2.0
    recording.source.text = "x" * 99 + "\n"
    recording.finish()
    assert run.atoms == [{"out_left_out": 100}]
    assert "printed faster than it could be recorded; left out here: 100 bytes" in "".join(
        run.texts
    )


@printing
def test_what_finds_no_room_is_counted(stdout):
    """With a thread that is held up, some MiB wait; the rest is left out and said to be."""
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


@printing
def test_public_arguments(stdout):
    with seamark.init_run(**ON | {"capture": NOTHING | {"limit": "100B"}}):
        print("a" * 60)
        print("b" * 60)
    text = printed(ROOT)["stdout"]
    assert "more than 100 bytes in all" in text

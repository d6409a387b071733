"""Text as a terminal shows it, compared with pyte, which is one."""

from __future__ import annotations

import io
import re

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress
from tqdm import tqdm

from seamark.pictures.terminal import ROWS, Terminal, collapse, stripped

WORDS = st.sampled_from(["a", "bc", "def ", "loss 0.25", "  ", "████▌", "été"])
AMOUNTS = st.sampled_from(["", "0", "1", "2", "3", "7"])
MOVES = st.builds("\x1b[{}{}".format, AMOUNTS, st.sampled_from("ABCDEFGae"))
# pyte knows a move to a column as "'" where ECMA-48 has "`", and no 1-based default for it.
TO_COLUMN = st.builds("\x1b[{}`".format, AMOUNTS)
ERASES = st.builds("\x1b[{}K".format, st.sampled_from(["", "0", "1", "2"]))
COLOURS = st.builds(
    "\x1b[{}m".format,
    st.sampled_from(["", "0", "1", "31", "32;1", "39", "22", "44", "38;5;200", "48;2;1;2;3"]),
)
PLAIN = st.sampled_from(["\r", "\n", "\b", "\t", "\r\n", "\n\n", "\x1b[A", "\x1b[1A\x1b[2K"])
UNKNOWN = st.sampled_from(
    ["\a", "\x1b[?25l", "\x1b[?25h", "\x1b]0;title\a", "\x1b]8;;http://x\x1b\\", "\x1bPq\x1b\\"]
)
NOT_PRINTED = st.sampled_from(["\x1b[2J", "\x1b[H", "\x1b[5;5H", "\x1b[J", "\x1bM", "\x1b[6n"])
KNOWN = st.lists(st.one_of(WORDS, PLAIN, MOVES, ERASES, COLOURS), max_size=60)
PIECES = st.lists(
    st.one_of(WORDS, PLAIN, MOVES, ERASES, TO_COLUMN, COLOURS, UNKNOWN, NOT_PRINTED), max_size=60
)


def seen(text):
    """Return the lines that pyte shows, colours left out."""
    screen = pyte.HistoryScreen(2000, ROWS, history=100_000, ratio=0.5)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(text)
    rows = [*screen.history.top, *(screen.buffer[at] for at in range(ROWS))]
    lines = ["".join(row[at].data for at in range(max(row, default=-1) + 1)) for row in rows]
    return without_end(line.rstrip() for line in lines)


def without_end(lines):
    """Return lines without empty ones at their end."""
    return "\n".join(lines).rstrip("\n").split("\n")


def shown(pieces, *, colours=False):
    """Return the lines that a reader sees of texts in order."""
    terminal = Terminal(colours=colours)
    lines = [line.text for piece in pieces for line in terminal.feed(piece)]
    lines += [line.text for line in terminal.close()]
    return without_end(lines)


def cut(pieces, cuts):
    """Return texts that were made of pieces, cut between some of them."""
    ends = [*sorted({at % (len(pieces) + 1) for at in cuts}), len(pieces)]
    return ["".join(pieces[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


@given(KNOWN)
@example(["abcdef", "\r", "XY"])
@example(["a\n"] * (ROWS + 5) + ["\x1b[999A", "top"])
def test_a_reader_sees_what_a_terminal_shows(pieces):
    text = "".join(pieces)
    assert shown([text]) == seen(text)


@given(PIECES, st.lists(st.integers(0, 100), max_size=8))
@example(["\x1b[31mab", "\r", "c\n", "\x1b[5A", "x", "\x1b[5B", "y"], [])
@example(["a\n"] * (ROWS + 5) + ["\x1b[150A", "x", "\x1b[150A", "y\n"], [ROWS + 2])
def test_collapsed_text_looks_the_same(pieces, cuts):
    chunks = cut(pieces, cuts)
    less = [collapse(chunk) for chunk in chunks]
    assert shown(less, colours=True) == shown(["".join(pieces)], colours=True)
    assert all(len(new) <= len(old) for new, old in zip(less, chunks, strict=True))


@given(PIECES, st.lists(st.integers(0, 400), max_size=8))
def test_lines_do_not_depend_on_where_texts_are_cut(pieces, cuts):
    assert shown(cut(pieces, cuts), colours=True) == shown(["".join(pieces)], colours=True)


def bar(count, file, **given):
    return tqdm(range(count), file=file, mininterval=0, miniters=1, ascii=True, **given)


def test_progress_bars_become_their_last_states():
    file, nested = io.StringIO(), io.StringIO()
    for _ in bar(1000, file):
        pass
    less = collapse(file.getvalue())
    assert len(less) < len(file.getvalue()) / 100
    assert re.fullmatch(r"100%\|#+\| 1000/1000 \[.*\]", stripped(less))
    for _ in bar(5, nested, desc="epochs", position=0):
        for _ in bar(100, nested, desc="batches", position=1, leave=True):
            pass
    text = nested.getvalue()
    assert seen(text) == stripped(text).split("\n") == stripped(collapse(text)).split("\n")


@pytest.mark.parametrize(
    "text",
    [
        *(f"\x1b[999999999{end}" * 10_000 for end in ("A", "Gx\n")),
        "\x1b[" + "9" * 125_000 + "A",
        *("\r" * 100_000, "\b" * 100_000, "\x1b" * 50_000, "\x1b]" * 25_000),
        "\x1b]0;" + "x" * 125_000,
        *("x" * 100_000 + f"\x1b[{part}Ky" * 15_000 for part in (1, 2)),
        "\t" * 100_000 + "x\x1b[2K",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_hostile_text_is_bounded(text):
    """Far moves and sequences without an end cost no more than reading the text."""
    less = collapse(text)
    assert len(less) <= len(text)
    assert shown([less]) == shown([text])
    assert all(len(line) < (1 << 16) + 30 for line in shown([text]))


def test_only_text_and_colours_reach_a_reader():
    for hostile in (
        *("\x1b]52;c;cm0gLXJm\a", "\x1b]0;title\x1b\\", "\x1bP$q m\x1b\\", "\x1b_kitty\x1b\\"),
        *("\x1b[6n", "\x1b[?1049h", "\x1b[21t", "\x1bc", "\x1b[8m", "\x1b[5m"),
        *("\x9b", "\x9d", "\x00", "\x7f"),
    ):
        line = f"\x1b[31ma{hostile}b\x1b[0m\n"
        assert shown([line], colours=True) == ["\x1b[31mab\x1b[0m"]
        assert shown([line]) == ["ab"]
    assert shown(["a\x1b]52;c;never\nnext\n"]) == ["a", "next"]  # it hides one line at most


def test_a_line_that_is_too_long_says_how_much_is_missing():
    assert shown(["x" * 70_000]) == ["x" * 65_536 + "… (4,464 characters more)"]
    assert shown(["x" * 70_000 + "\rshort\x1b[K"]) == ["short"]
    assert shown(["x" * 50_000, "y" * 50_000])[0].endswith("yy… (34,464 characters more)")


def test_the_bars_of_rich_become_their_last_states():
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=80, color_system="truecolor", no_color=False
    )
    with Progress(console=console, auto_refresh=False) as progress:
        tasks = [progress.add_task(name, total=200) for name in ("train", "validate")]
        for number in range(200):
            for task in tasks:
                progress.advance(task)
            if number == 100:
                progress.console.print("half of it")
            progress.refresh()
    text = file.getvalue()
    chunks = [text[at : at + 20_000] for at in range(0, len(text), 20_000)]
    less = "".join(map(collapse, chunks))
    assert len(less) < len(text) / 10
    lines = shown([less])
    assert lines == shown([text]) == seen(text)
    assert lines[0] == "half of it"
    assert [line.split()[0] for line in lines[1:]] == ["train", "validate"]
    assert "\x1b[38;" in "".join(shown([less], colours=True))

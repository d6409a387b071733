"""What is printed becomes lines: of a bar that is drawn for hours, one."""

from __future__ import annotations

from seamark.cli._printed import Lines, Part, Process

PROCESS = Process("writer", 0, "host", 1, 1)


def lines_of(*texts):
    """Return time and text of the lines that parts make, one each second, from 1 on."""
    lines = Lines(colours=False)
    parts = [
        Part(second * 10**9, PROCESS, "monitoring/writer/stderr", text)
        for second, text in enumerate(texts, 1)
    ]
    shown = [*lines.finished(parts), *lines.close()]
    return [(line.t // 10**9, line.text) for line in shown]


def test_progress_bar_is_shown_in_its_last_state_as_on_a_terminal():
    texts = [f"\rstep {number:6}" for number in range(10_000)]
    assert lines_of("before\n", *texts, "\n", "after\n") == [
        (1, "before"),
        (10_001, "step   9999"),
        (10_003, "after"),
    ]
    assert lines_of("\rabcdef", "\rxyz", "\r12", "\n") == [(3, "12zdef")]


def test_lines_are_given_before_everything_is_read():
    """A long log does not fill the memory, and its beginning does not wait for its end."""

    def parts():
        for second in range(1, 100):
            yield Part(second * 10**9, PROCESS, "monitoring/writer/stdout", f"line {second}\n")
            read.append(second)

    read: list[int] = []
    found = Lines(colours=False).finished(parts())
    assert [next(found).text for _ in range(3)] == ["line 1", "line 2", "line 3"]
    assert read == list(range(1, 14))

"""Rules of ``.gitignore`` files mean what git says they mean, and none of them takes long."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repositories import git
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seamark.capture.code.walk import Ignored, RulesTooSlowError, RuleTime, rules_of

NAMES = ("a", "b", "ab", "ba", "aab", "a.b", "[a]", "a b", "b ", "\\a", "#a", "!b", "é", "-", "*")
ENDLESS = float("inf")


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Return a repository with files and folders of odd names, three deep."""
    top = tmp_path_factory.mktemp("rules") / "repo"
    folders = ("", "a", "a/b", "ab", "ab/a", "b/aab/a", "[a]", "a/a/a")
    for folder in folders:
        (top / folder).mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for name in NAMES:
            place = top / folder / name
            if not place.exists():
                place.write_text("")
    git(top, "init", "-q")
    return top


def paths_in(tree: Path) -> list[str]:
    found = []
    for here, folders, files in os.walk(tree):
        folders[:] = [name for name in folders if name != ".git"]
        inside = Path(here).relative_to(tree)
        found += [str(inside / name) for name in (*folders, *files)]
    return [name for name in found if not name.endswith(".gitignore")]


def ignored_by_git(tree: Path, paths: list[str]) -> set[str]:
    command = ["git", "-C", str(tree), "check-ignore", "--no-index", "-z", "--stdin"]
    asked = b"\0".join(os.fsencode(f"./{path}") for path in paths) + b"\0"
    told = subprocess.run(command, input=asked, capture_output=True, check=False)
    assert told.returncode in (0, 1), told.stderr
    return {os.fsdecode(name)[2:] for name in told.stdout.split(b"\0")[:-1]}


def ignored_by_us(tree: Path, paths: list[str]) -> set[str]:
    ignored = Ignored(str(tree), RuleTime(ENDLESS))
    found = set()
    for path in paths:
        place = tree / path
        if not ignored.includes(str(place), is_folder=place.is_dir() and not place.is_symlink()):
            found.add(path)
    return found


WORDS = st.sampled_from(
    [
        *("a", "b", "ab", "é", ".", " ", "-", "!", "#", "]", "^"),
        *("*", "**", "***", "?", "/", "/", "**/", "/**", "/**/"),
        *("\\", "\\*", "\\a", "\\[", "\\ ", "\\/", "\\\\"),
        *("[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "[!]a]", "[a", "[]", "[-a]", "[a-]", "[--b]"),
        *("[[:alpha:]]", "[![:alpha:]]", "[[:nope:]]", "[[:alpha:]", "[[:]", "[a/b]", "[\\]a]"),
        *("[\\a-\\b]", "[[a]", "[a-\\", "[:alpha:]", "[b-a]", "[[:punct:][:space:]]"),
    ]
)
LINES = st.lists(WORDS, max_size=6).map("".join)
RULES = st.lists(st.tuples(st.sampled_from(["", "", "!", "/"]), LINES, st.sampled_from(["", "/"])))
FILES = RULES.map(lambda rules: "\n".join("".join(rule) for rule in rules))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(top=FILES, nested=FILES, more=st.sampled_from(["", "a\n", "!ab\n*\n"]))
@example(top="a**/b\n**a/b", nested="", more="")
@example(top="*\n!*/\n!*.b", nested="!a\n", more="")
@example(top="/a/\n", nested="!b", more="")
@example(top="b\\ \\  \r\nab\\", nested="\ufeffa", more="")
@example(top="/**\\/b\n!a/**", nested="**\n!/a/**/a", more="")
@pytest.mark.once
@pytest.mark.thorough
def test_git_agrees_on_what_is_ignored(tree, top, nested, more):
    """Anchors, negations, ``**``, classes, escapes and spaces, in nested files and the exclude."""
    (tree / ".gitignore").write_bytes(top.encode())
    (tree / "a" / ".gitignore").write_bytes(nested.encode())
    (tree / ".git" / "info" / "exclude").write_bytes(more.encode())
    paths = paths_in(tree)
    assert ignored_by_us(tree, paths) == ignored_by_git(tree, paths)


@pytest.mark.parametrize(
    ("rule", "path"),
    [
        (b"**/a*a*a*/**/a*a*a*x", b"a" * 250 + b"/" + b"a" * 250),
        (b"*a" * 400 + b"b", b"a" * 255),
        (b"*[ab]" * 200 + b"c", b"ab" * 127),
        (b"**/" * 300 + b"b", b"/".join([b"a"] * 1000)),
        (b"**/a/" * 200 + b"b", b"/".join([b"a"] * 1000)),
        (b"**/*a*/" * 140 + b"b", b"/".join([b"aaaa"] * 400)),
    ],
)
def test_no_rule_backtracks(rule, path):
    """A regular expression would take years for some of these."""
    (found,) = rules_of(rule, 2000)
    assert not found.matches(path, path.rpartition(b"/")[2], is_folder=False)


def test_rules_have_a_limit_in_all(tmp_path):
    """Thousands of them for thousands of files: then nothing more is asked."""
    (tmp_path / ".gitignore").write_text("".join(f"a*a*a*b{n}\n" for n in range(2000)))
    ignored = Ignored(str(tmp_path), RuleTime(0.05))
    names = (str(tmp_path / f"{'a' * 100}{number}") for number in range(100_000))
    with pytest.raises(RulesTooSlowError):
        all(ignored.includes(name, is_folder=False) for name in names)

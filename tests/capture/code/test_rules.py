"""Rules of ``.gitignore`` files mean what git says they mean, and none of them takes long."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from git_repositories import git
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from seamark.capture.code.ignored import Ignored

NAMES = ("a", "b", "ab", "ba", "aab", "a.b", "[a]", "a b", "b ", "\\a", "#a", "!b", "-", "*")


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
    ignored = Ignored(str(tree))
    found = set()
    for path in paths:
        place = tree / path
        if not ignored.includes(str(place), is_folder=place.is_dir() and not place.is_symlink()):
            found.add(path)
    return found


WORDS = st.sampled_from(
    [
        *("a", "b", "ab", ".", " ", "-", "!", "#", "*", "*", "?"),
        *("\\*", "\\a", "\\[", "\\ ", "\\\\"),
        *("[ab]", "[!a]", "[^b]", "[a-b]", "[]a]", "[!]a]", "[-a]", "[a-]"),
    ]
)
NAMES_IN_RULES = st.lists(WORDS, min_size=1, max_size=4).map("".join)
PARTS = st.one_of(st.just("**"), NAMES_IN_RULES.filter(lambda name: "**" not in name))
LINES = st.lists(PARTS, max_size=4).map("/".join)
RULES = st.lists(st.tuples(st.sampled_from(["", "", "!", "/"]), LINES, st.sampled_from(["", "/"])))
FILES = RULES.map(lambda rules: "\n".join("".join(rule) for rule in rules))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(top=FILES, nested=FILES, more=st.sampled_from(["", "a\n", "!ab\n*\n"]))
@example(top="*\n!*/\n!*.b", nested="!a\n", more="")
@example(top="/a/\n", nested="!b", more="")
@example(top="b\\ \\  \r\nab\\", nested="\ufeffa", more="")
@example(top="/**/b\n!a/**", nested="**\n!/a/**/a", more="")
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
        ("**/a*a*a*/**/a*a*a*x", "a" * 250 + "/" + "a" * 250),
        ("*a" * 400 + "b", "a" * 255),
        ("*[ab]" * 200 + "c", "ab" * 127),
        ("**/" * 300 + "b", "a/" * 500 + "c"),
        ("**/a/" * 200 + "b", "a/" * 500 + "c"),
        ("**/*a*/" * 140 + "b", "aaaa/" * 400 + "c"),
    ],
)
def test_no_rule_backtracks(tmp_path, rule, path):
    """A regular expression would take years for some of these."""
    (tmp_path / ".gitignore").write_text(rule)
    assert Ignored(str(tmp_path)).includes(f"{tmp_path}/{path}", is_folder=False)

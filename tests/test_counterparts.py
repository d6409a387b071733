"""The pages for users of other programs have each of their names, beside a line that was run."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pathlib import Path

import pytest
from recording import QUIET

import seamark
from seamark.options import run_options

HOWTO = Path(__file__).parents[1] / "docs" / "howto"
RUN = re.compile(r"^```(?:python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
CALL = re.compile(r"([A-Za-z_][\w.]*)(?:\((.*)\))?\Z", re.DOTALL)
STATEMENT = re.compile(r"(?!seamark\.[\w.]+\Z)[a-z_]+(\.[a-z]|\[)(?!.*…)")
"""A call or an assignment, without a gap; no argument alone, and no command."""

NAMES = Path(__file__).parent / "data" / "counterparts.txt"
"""Names with the arguments that they take, as in the documents of each program: functions, and then
each class (with a colon; or a module or an enumeration, with a point) and its members."""
KNOWN = dict(
    re.findall(r"^== (\S+)\n(.*?)(?=^== |\Z)", NAMES.read_text("utf-8"), re.MULTILINE | re.DOTALL)
)


def rows_of(page):
    for line in (HOWTO / f"{page}.md").read_text("utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| ") and len(cells) == 4:
            yield cells[1].strip(), cells[2].strip()


def full_names(listing):
    """Yield the names in a list as above, members with that of their class."""
    owner = ""
    for word in listing.split():
        if word.endswith("."):
            owner = word
        elif word.endswith(":"):
            yield word.removesuffix(":")
            owner = word.partition("(")[0].removesuffix(":") + "."
        else:
            yield owner + word


def names_in(words):
    found = set()
    for word in words:
        if (match := CALL.match(word)) is None:
            continue
        name, given = match[1], match[2]
        found.add(name)
        for each in filter(None, (given or "").split(",")):
            found.add(f"{name}:{each.partition('=')[0].strip(' *…')}")
    return found


def plain(code):
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", code)).replace("'", '"')


@pytest.mark.parametrize("page", KNOWN)
def test_every_name_has_a_line_of_code_that_is_run(page):
    """The page names every name and argument; its tables have code of its programs, which run."""
    named = names_in(code for left, right in rows_of(page) if right for code in CODE.findall(left))
    assert sorted(names_in(full_names(KNOWN[page])) - named) == []
    run = plain("".join(RUN.findall((HOWTO / f"{page}.md").read_text("utf-8"))))
    lines = [code for _, right in rows_of(page) for code in CODE.findall(right)]
    code = [line for line in lines if STATEMENT.match(line)]
    assert code
    assert [line for line in code if plain(line) not in run] == []


def test_names_of_other_programs_are_errors_that_name_ours(tmp_path):
    """Methods, functions and arguments; the names in the messages exist."""
    run = seamark.init_run("p", name="given", root=tmp_path / "root", **QUIET)
    run.stop()
    for name, words in run_options.VERBS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(run, name)
    for name, words in run_options.FUNCTIONS.items():
        with pytest.raises(AttributeError, match=re.escape(words)):
            getattr(seamark, name)
    verbs = [partial(seamark.init_run, "p", root=tmp_path), seamark.init_project]
    for name, ours in run_options.ARGUMENTS.items():
        known = [(verb, inspect.signature(verb).parameters) for verb in verbs]
        having = [verb for verb, names in known if ours in names and name not in names]
        assert having, ours
        for verb in having:
            with pytest.raises(TypeError, match=rf"{name!r}; did you mean {ours!r}\?"):
                verb(**{name: "x"})
    said = " ".join([*run_options.VERBS.values(), *run_options.FUNCTIONS.values()])
    for owner, name in re.findall(r"\b(seamark|run|project)\.(\w+)", said):
        home = {"seamark": seamark, "run": seamark.Run, "project": seamark.Project}[owner]
        assert hasattr(home, name), (owner, name)

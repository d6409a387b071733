"""One word for each thing: every public name stands on the page about words, beside one thing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

import seamark
from seamark import utils
from seamark.cli import app
from seamark.registry.group import Group
from seamark.run.params import Params

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "glossary.md"
CODE = re.compile(r"`([^`]+)`")
CONTAINERS = (seamark.Run, seamark.Project, seamark.Model, seamark.ModelVersion, seamark.Artifact)
OWNERS = (*CONTAINERS, seamark.Handler, Group, Params)
FUNCTIONS = [
    getattr(seamark, name) for name in seamark.__all__ if name.startswith("init_") or name == "sync"
]
OF_MAPPINGS = {"clear", "get", "items", "keys", "pop", "popitem", "setdefault", "values"}


def rows():
    """Yield the code in each cell of each table of the page, the cell with the thing first."""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| ") and "---" not in line:
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield [set(CODE.findall(cell)) for cell in cells]


def listed(column):
    """Return what stands in one column of the tables of things, as often as it stands there."""
    return [name for row in rows() if len(row) == 4 for name in row[column]]


def neptunes():
    """Return the names that the page has as Neptune's."""
    words = {name for row in rows() if len(row) == 2 for name in row[0]}
    return {re.split(r"[(.]", name)[0] for name in words}


def hidden():
    """Return the members that the reference leaves out, being there for adapters alone."""
    reference = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
    found = re.findall(r":exclude-members: (.*)", reference)
    return {name.strip() for names in found for name in names.split(",")}


def members(owner):
    return {name for name in dir(owner) if not name.startswith("_")} - hidden()


def arguments(call):
    kinds = inspect.Parameter
    return {
        each.name
        for each in inspect.signature(call).parameters.values()
        if each.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL, kinds.POSITIONAL_ONLY)
        and each.name != "self"
    }


def commands(group, above=""):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")


def test_every_name_of_the_package_has_its_word():
    """Names of the package, methods and attributes, and what functions that open things take."""
    names = {name for name in seamark.__all__ if not name.startswith("__")} | set(utils.__all__)
    for owner in OWNERS:
        names |= members(owner) - (OF_MAPPINGS if owner is Params else set())
    for call in FUNCTIONS:
        names |= arguments(call)
    for verb in (seamark.Run.log_metrics, seamark.Run.set_state, seamark.Project.fetch_runs_table):
        names |= arguments(verb)
    said = {name.partition(".")[0] for name in listed(1)} | neptunes()
    left_out = sorted(names - said)
    assert not left_out, left_out


def test_every_command_and_flag_has_its_word():
    """The commands, those below them, and their long options."""
    found = dict(commands(app))
    flags = {
        name
        for command in [app, *found.values()]
        for each in command.params
        for name in [*each.opts, *each.secondary_opts]
        if name.startswith("--")
    }
    said = set(listed(2))
    left_out = sorted({*found, *flags} - said)
    assert not left_out, left_out


def test_no_name_is_listed_twice_or_gone():
    """Two rows with one name would be two words for one thing, or one word for two."""
    for column in (1, 2):
        names = listed(column)
        twice = sorted({name for name in names if names.count(name) > 1})
        assert not twice, twice
    known = {*dict(commands(app))}
    gone = sorted(name for name in listed(2) if not name.startswith("--") and name not in known)
    assert not gone, gone
    calls = [getattr(owner, name) for owner in OWNERS for name in members(owner)]
    calls += [getattr(seamark, name) for name in seamark.__all__]
    there = {name for owner in (seamark, *OWNERS) for name in dir(owner)} | set(utils.__all__)
    for call in filter(inspect.isroutine, calls):
        there |= arguments(call)
    gone = sorted({name.partition(".")[0] for name in listed(1)} - there)
    assert not gone, gone

"""What `init_run` is given, by arguments and by variables of the environment."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recording import QUIET

import seamark
from seamark.errors import ArgumentError, PathError, SeamarkError, UnknownArgumentError
from seamark.options import config
from seamark.options.run_options import RunOptions
from seamark.options.settings import Settings


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch):
    monkeypatch.setattr(config, "_warned_of", set())


def test_unusable_monitoring_namespace_is_refused_at_once():
    """Else everything captured would be lost, one value after the other."""
    for given, why in (
        ("a//b", "an empty part"),
        ("a\nb", "no control characters"),
        ("sys", "'sys' belongs to the run"),
        ("source_code/mine", "'source_code' belongs to the run"),
        ("x" * 1000, "at most 924 bytes of UTF-8, got 1000"),
    ):
        said = "^monitoring_namespace: expected .*" + re.escape(why)
        with pytest.raises(ArgumentError, match=said):
            seamark.init_run(monitoring_namespace=given)
    assert Settings.of(monitoring_namespace="/mine/").monitoring_namespace == "mine"


@pytest.mark.usefixtures("captured")
def test_error_names_the_variable_with_the_wrong_value(monkeypatch):
    for variable, given, expected in (
        ("SEAMARK_CAPTURE_GIT", "maybe", "expected 1 or 0, got str: 'maybe'"),
        ("NEPTUNE_CAPTURE_STDOUT", "fdd", "expected 1, 0 or fd, got str: 'fdd'"),
        ("NEPTUNE_CAPTURE_LIMIT", "much", ""),
        ("SEAMARK_MASK_SECRETS", "2", "expected 1 or 0, got str: '2'"),
        ("SEAMARK_SECRETS", "(", ""),
        ("SEAMARK_PROJECT", "a//b", "project 'a//b'"),
    ):
        monkeypatch.setenv(variable, given)
        with pytest.raises((ArgumentError, PathError)) as caught:
            Settings.of()
        assert str(caught.value).startswith(f"{variable}: {expected}")
        monkeypatch.delenv(variable)


def test_error_of_a_wrong_option_says_what_to_write():
    """Also of names that options had before, and keys of ``capture``."""
    for given, error, why in (
        ({"capture_git": False}, UnknownArgumentError, "write capture={'git': ...}"),
        ({"capture_limit": "1MB"}, UnknownArgumentError, "write capture={'limit': ...}"),
        ({"mask_secrets": False}, UnknownArgumentError, "write secrets=False"),
        ({"captures": {}}, UnknownArgumentError, "did you mean 'capture'?"),
        ({"capture": False}, ArgumentError, "expected a mapping such as {'git': False}, got bool"),
        ({"capture": {"gits": 0}}, ArgumentError, "got 'gits'; did you mean 'git'?"),
        ({"capture": {"limit": "much"}}, ArgumentError, "capture['limit']: expected an amount"),
        ({"capture": {"git": "maybe"}}, ArgumentError, "capture['git']: expected True or False"),
    ):
        with pytest.raises(error, match=re.escape(why)):
            seamark.init_run(**given)


@pytest.mark.usefixtures("captured")
def test_options_that_are_not_given_or_none_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv("SEAMARK_CAPTURE_GIT", "0")
    monkeypatch.setenv("SEAMARK_CAPTURE_HOST", "0")
    found = Settings.of(capture={"host": True, "script": False, "limit": None}).capture
    assert {key for key, kept in found.items() if kept is True} == {"packages", "host", "signals"}
    assert found["limit"].per_minute == 1 << 20
    assert Settings.of(**dict.fromkeys(RunOptions.__annotations__)) == Settings.of()


@pytest.mark.parametrize("where", ["seamark", "seamark.lightning", "seamark.ignite"])
def test_every_option_is_in_signature_and_docstring(where):
    if where != "seamark":
        pytest.importorskip(where.removeprefix("seamark."))
    module = importlib.import_module(where)
    taker = module.init_run if where == "seamark" else module.SeamarkLogger
    named = inspect.signature(taker).parameters
    assert RunOptions.__annotations__.keys() == {each.name for each in fields(Settings)}
    for option in RunOptions.__annotations__:
        assert named[option].default is None
        assert not isinstance(named[option].annotation, str)
        assert re.search(rf"^    {option}: \S", inspect.getdoc(taker), re.MULTILINE)
    assert "**options" not in inspect.getdoc(taker)


def test_unknown_variable_is_warned_of_once(monkeypatch, caplog):
    """Who switches something off by a wrong name believes that it is off."""
    caplog.set_level(logging.WARNING, "seamark")
    known = {
        "SEAMARK_CAPTURE_HARDWARE": "; did you mean SEAMARK_CAPTURE_HARDWARE_METRICS?",
        "SEAMARK_CAPTURE_EVERYTHING_AT_ALL": "there is no such variable",
        "SEAMARK_MASK_SECRET": "; did you mean SEAMARK_MASK_SECRETS?",
    }
    for name in (*known, "SEAMARK_PORTHOLES", "CAPTURE_HARDWARE"):
        monkeypatch.setenv(name, "0")
    Settings.of()
    Settings.of()
    assert len(caplog.messages) == len(known)
    for name, said in known.items():
        (message,) = [one for one in caplog.messages if f"{name}:" in one or f"{name} " in one]
        assert message.endswith(said)


def raising(*names, **more):
    def fail(*_args):
        msg = "not to be asked"
        raise RuntimeError(msg)

    members = {"__hash__": object.__hash__, **more} | dict.fromkeys(names, fail)
    return type("Raising", (), members)()


def like_tensor():
    """Return an object that compares by element, is iterable, and has no truth value."""
    more = {"__eq__": lambda one, _: one, "__iter__": lambda one: iter([one]), "shape": (2,)}
    return raising("__bool__", **more)


HOSTILE: dict[str, Callable[[], Any]] = {
    "numbers": lambda: np.array([1, 2]),
    "word": lambda: np.array(["online"]),
    "tensor": like_tensor,
    "equal to all": type("Equal", (), {"__eq__": lambda *_: True}),
    "not comparable": lambda: raising("__eq__", "__hash__"),
    "no text": lambda: raising("__str__", "__repr__"),
    "no items": lambda: raising("__iter__", "__len__"),
    "no path": lambda: raising("__fspath__"),
    "bytes": lambda: b"a",
    "huge": lambda: 10**5000,
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "a\ud800b",
    "long": lambda: "x" * 100_000,
    "set": lambda: {"a", "b"},
    "generator": lambda: (one for one in ("a", "b")),
    "generator that raises": lambda: (1 // one for one in (0,)),
    "list of what has no text": lambda: [raising("__str__", "__repr__", "__eq__")],
    "mapping of what has no text": lambda: {"a": raising("__str__", "__repr__", "__eq__")},
    "NaN": lambda: float("nan"),
}


def refusal(take, option, kind):
    """Return the text of the error of a value; let what is accepted record and end."""
    try:
        taken = take(**{**QUIET, "root": "here", option: HOSTILE[kind]()})
    except SeamarkError as error:
        said: str = getattr(error, "strerror", None) or str(error)
        assert said.startswith((option, "no run ") if option == "with_id" else option), kind
        return said
    if isinstance(taken, seamark.Run):
        taken["number"] = 1
        taken.stop()
    return None


@pytest.mark.parametrize("option", RunOptions.__annotations__)
def test_any_value_is_accepted_or_refused_by_the_name_of_its_option(option):
    """Whatever it is; nothing is on disk if it was refused, and nothing fails later if not."""
    for kind in HOSTILE:
        before = set(Path().rglob("*"))
        if refusal(seamark.init_run, option, kind) is not None:
            assert set(Path().rglob("*")) == before, kind


@pytest.mark.parametrize("where", ["seamark.lightning", "seamark.ignite"])
def test_loggers_refuse_values_as_init_run_does(where):
    """A run of theirs begins with its first value: until then nothing is on disk."""
    pytest.importorskip(where.removeprefix("seamark."))
    logger = importlib.import_module(where).SeamarkLogger
    for option in RunOptions.__annotations__:
        for kind in ("tensor", "huge", "list of what has no text"):
            refusal(logger, option, kind)
    assert not list(Path().rglob("*"))


def test_first_of_several_invalid_options_is_named():
    """In the order of the reference, whatever the order of a set is in this process."""
    invalid = dict.fromkeys(("conflict", "resume", "on_duplicate", "ranks", "start", "mode"), "x")
    with pytest.raises(ArgumentError, match=r"^mode: "):
        seamark.init_run(**invalid)


def test_several_strings_may_be_in_any_iterable():
    """Also where the positional argument looks like an id, so that runs are looked for first."""
    for several in (np.array, iter):
        with seamark.init_run("KEY-12", tags=several(["a", "b"]), **QUIET) as run:
            assert (run.project, run["sys/tags"].fetch()) == ("KEY-12", {"a", "b"})


def test_errors_never_contain_the_token():
    for given in (b"s3cr3t", "s3cr3t\nX: 1", "s3cr3t\u2013", ["s3cr3t"]):
        with pytest.raises(ArgumentError, match=r"^api_token: expected .* ASCII") as caught:
            Settings.of(api_token=given)
        assert "s3cr3t" not in str(caught.value)
    assert Settings.of(api_token="s3cr3t\n").api_token == "s3cr3t"

"""What `init_run` is given: by arguments, by variables of the environment, and by a file."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import logging
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
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


WHOLE = """
name: digits
description: "two\\nlines"
project: team/x
tags: [best, "2024"]
groups: fold
params:
  lr: 1e-3
  big: 1_000
  opt: {betas: [0.9, 0.99]}
inputs:
  data: data.csv
  far: s3://bucket/key
"""


def write(text, name="run.yaml"):
    Path(name).write_text(text, encoding="utf-8")
    return name


def test_keys_of_a_file_are_recorded_like_arguments():
    Path("data.csv").write_text("1", encoding="utf-8")
    with seamark.init_run(config_path=write(WHOLE)) as run:
        assert run.project == "team/x"
        assert run.params == {"lr": 0.001, "big": 1000, "opt": {"betas": [0.9, 0.99]}}
        paths = ("name", "description", "tags", "group_tags")
        found = [run[f"sys/{path}"].fetch() for path in paths]
        assert found == ["digits", "two\nlines", {"best", "2024"}, {"fold"}]
        (data,) = run["artifacts/inputs/data"].fetch_files_list()
        assert data["path"] == "data.csv"
        assert run.exists("artifacts/inputs/far")


def test_file_overrides_arguments_and_these_the_environment(monkeypatch):
    monkeypatch.setenv("SEAMARK_PROJECT", "of/environment")
    path = write("name: file\ntags: [a]\nparams: {lr: 1, opt: {eps: 1}, flat: 3}\n")
    params = {"lr": 2, "bs": 3, "opt": {"eps": 2, "beta": 3}, "flat": {"below": 1}}
    with seamark.init_run(
        config_path=path, name="argument", project="of/argument", tags=["b"], params=params
    ) as run:
        assert run.project == "of/argument"
        assert run["sys/name"].fetch() == "file"
        assert run["sys/tags"].fetch() == {"a", "b"}
        assert run.params == {"lr": 1, "bs": 3, "opt": {"eps": 1, "beta": 3}, "flat": 3}
    with seamark.init_run(config_path=path) as run:
        assert run.project == "of/environment"


def test_words_of_t9k_are_read_with_one_hint(caplog):
    path = write("labels: [a]\nhparams: {lr: 1}\nfolder: /alice/digits/\n")
    with caplog.at_level(logging.WARNING), seamark.init_run(config_path=path) as run:
        assert run.project == "alice/digits"
        assert run["sys/tags"].fetch() == {"a"}
        assert run.params == {"lr": 1}
    (hint,) = [one for one in caplog.messages if "names in Seamark" in one]
    assert "'tags' for 'labels', 'params' for 'hparams', 'project' for 'folder'" in hint


MISTAKES = (
    ("parms: {}\n", "expected .* argument of init_run, got 'parms'.* mean 'params'"),
    ("api_token: x\n", "'api_token' cannot be given here: .* SEAMARK_API_TOKEN"),
    ("capture: {git: 3}\n", r"capture\['git'\]: expected True or False, got int: 3"),
    ("capture_git: false\n", "write capture: {'git': "),
    ("conflict_strategy: old\n", "conflict_strategy: expected .* got 'old'"),
    ("name: 2024\n", r"name: expected a string or None, got int: 2024 \(in quotes it is a text"),
    ("tags:\n  - a\n  - 3\n", "tags: expected a string or several strings, got int: 3"),
    ("inputs: {d: nowhere.csv}\n", "inputs: expected an existing file .*nowhere"),
    ("params:\n  lr: 1\n  lr: 2\n", r"each key once, got 'lr' again \(line 3, column 3\)$"),
    ("tags: [a]\nlabels: [b]\n", "expected one of 'tags' and 'labels', got both"),
    ("params: {api_token: hunter2\n", r"expected ',' or '}', .* \(line 2, column 1\)$"),
    ("name: !!python/object:os.system x\n", "could not determine a constructor"),
    ("- a\n", "expected keys and values, got a list"),
    ("name: a\x00\n", "special characters"),
)


def test_mistakes_are_named_with_file_and_key_and_nothing_is_recorded():
    for text, why in MISTAKES:
        with pytest.raises(ArgumentError, match=rf"^config_path: run\.yaml: .*{why}"):
            seamark.init_run(config_path=write(text))
    assert not Path(".seamark").exists()


def test_mappings_missing_files_and_folders_are_refused():
    for given, error, said in (
        ({"lr": 1}, ArgumentError, "got a mapping: pass it as params="),
        ("no.yaml", FileNotFoundError, r"config_path: there is no file 'no\.yaml'"),
        (".", ArgumentError, r"config_path: '\.' cannot be read"),
    ):
        with pytest.raises(error, match=said):
            seamark.init_run(config_path=given)
    with seamark.init_run(config_path=write("")) as run:
        assert run.params == {}


KEPT_OUT = ("api_token", "config_path", "keep")
EVERY = """
with_id: null
custom_run_id: fold-1
mode: offline
parent: other
root: elsewhere
owner: true
start: true
ranks: zero
resume: auto
on_duplicate: new
checkpoints: keep
remote: [file:///mnt/a, file:///mnt/b]
conflict: new
make_project: false
git_ref: false
code_version: "2"
source_files: [run.yaml]
dependencies: infer
capture_stdout: false
capture_stderr: fd
capture_hardware_metrics: false
capture_traceback: false
capture: {script: false, packages: false, host: false, git: false, signals: false, limit: 2MiB/min}
monitoring_namespace: watched
fail_on_exception: false
secrets: [patient_id]
"""


def test_every_argument_has_the_same_effect_in_a_file_and_is_documented():
    file = Settings.of(config_path=write(WHOLE.replace("data: data.csv", "") + EVERY))
    said = yaml.safe_load(EVERY)
    alone = Settings.of(**said)
    names = {each.name for each in dataclasses.fields(Settings)}
    assert names - said.keys() - yaml.safe_load(WHOLE).keys() == {*KEPT_OUT}
    assert {name: getattr(file, name) for name in said} == {
        name: getattr(alone, name) for name in said
    }
    page = (Path(__file__).parents[1] / "docs" / "howto" / "parameters.md").read_text("utf-8")
    listed = page.partition("<!-- keys -->")[2].partition("<!-- end of keys -->")[0]
    names = {each.name for each in dataclasses.fields(Settings)}
    assert sorted(re.findall("`([a-z_]+)`", listed)) == sorted({*names, "inputs"} - {*KEPT_OUT})


def test_json_file_opens_an_existing_run_by_name_or_folder():
    with seamark.init_run("cv/x", name="first") as run:
        run["a"] = 1
    for where in ("cv/x/first", str(run.folder.path)):
        text = json.dumps({"with_id": where, "mode": "read-only"})
        assert seamark.init_run(config_path=write(text, "run.json"))["a"].fetch() == 1

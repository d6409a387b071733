"""`init_run(config_path=)`: a file says what a run is given."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from pathlib import Path

import pytest
import yaml

import seamark
from seamark.errors import ArgumentError
from seamark.options.settings import Settings

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
    ("run_id: x\n", "expected .* argument of init_run, got 'run_id'.* mean 'with_id'"),
    ("api_token: x\n", "'api_token' cannot be given here: .* SEAMARK_API_TOKEN"),
    ("capture: {git: 3}\n", r"capture\['git'\]: expected True or False, got int: 3"),
    ("capture_git: false\n", "write capture: {'git': "),
    ("conflict_strategy: old\n", "conflict_strategy: expected .* got 'old'"),
    ("name: 2024\n", r"name: expected a string or None, got int: 2024 \(in quotes it is a text"),
    ("params: [1]\n", "params: expected a mapping, .* got list"),
    ("tags:\n  - a\n  - 3\n", "tags: expected a string or several strings, got int: 3"),
    ("project: a//b\n", "project 'a//b': expected"),
    ("inputs: {d: nowhere.csv}\n", "inputs: expected an existing file .*nowhere"),
    ("params:\n  lr: 1\n  lr: 2\n", r"each key once, got 'lr' again \(line 3, column 3\)$"),
    ("tags: [a]\nlabels: [b]\n", "expected one of 'tags' and 'labels', got both"),
    ("labels: [b]\ntags: [a]\n", "expected one of 'tags' and 'labels', got both"),
    ("params: {api_token: hunter2\n", r"expected ',' or '}', .* \(line 2, column 1\)$"),
    ("name: !!python/object:os.system x\n", "could not determine a constructor"),
    ("a: &a [*a]\n", "found unconstructable recursive node"),
    ("- a\n", "expected keys and values, got a list"),
    ("3\n", "expected keys and values, got a single value"),
    ("[a]: 3\n", "found unhashable key"),
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


def test_every_argument_has_the_same_effect_in_a_file():
    file = Settings.of(config_path=write(WHOLE.replace("data: data.csv", "") + EVERY))
    said = yaml.safe_load(EVERY)
    alone = Settings.of(**said)
    names = {each.name for each in dataclasses.fields(Settings)}
    assert names - said.keys() - yaml.safe_load(WHOLE).keys() == {*KEPT_OUT}
    assert {name: getattr(file, name) for name in said} == {
        name: getattr(alone, name) for name in said
    }


def test_documentation_lists_every_key():
    page = (Path(__file__).parents[1] / "docs" / "howto" / "parameters.md").read_text("utf-8")
    listed = page.partition("<!-- keys -->")[2].partition("<!-- end of keys -->")[0]
    names = {each.name for each in dataclasses.fields(Settings)}
    assert sorted(re.findall("`([a-z_]+)`", listed)) == sorted({*names, "inputs"} - {*KEPT_OUT})


def test_upload_options_have_the_words_of_t9k_too(tmp_path):
    to = tmp_path.as_uri()
    text = f"name: a\nmake_folder: true\nconflict_strategy: new\nremote: {to}\n"
    for name in ("a", "a-2"):
        with seamark.init_run(config_path=write(text)) as run:
            assert run.name == name
        assert (tmp_path / "default" / run.id).is_dir()


def test_json_file_opens_an_existing_run_by_name_or_folder():
    with seamark.init_run("cv/x", name="first") as run:
        run["a"] = 1
    for where in ("cv/x/first", str(run.folder.path)):
        text = json.dumps({"with_id": where, "mode": "read-only"})
        assert seamark.init_run(config_path=write(text, "run.json"))["a"].fetch() == 1

"""The parts of the Lightning adapter that need no Trainer; integrations/lightning has the rest."""

from __future__ import annotations

import copy
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import get_args, get_type_hints

import pytest

pytest.importorskip("pytorch_lightning")

import seamark
from seamark.capture import Secrets
from seamark.capture.secrets.secrets import BY_NAME
from seamark.lightning import SeamarkLogger
from seamark.lightning._host import folder_name, hide_in_files, state_after, without_secrets
from seamark.lightning._logger import MetricPaths
from seamark.lightning._resume import Checkpoints
from seamark.options.run_options import RunOptions
from seamark.options.settings import MODES


class SIGTERMException(SystemExit):
    """Lightning has one of these in each of its packages."""


def test_status_of_lightning_becomes_a_state():
    for status, error, state in (
        ("success", None, "completed"),
        ("failed", ValueError(), "failed"),
        ("failed", None, "failed"),
        ("failed", KeyboardInterrupt(), "interrupted"),
        ("failed", SIGTERMException(), "interrupted"),
        ("finished", None, "suspended"),
        ("aborted", None, None),
    ):
        kept = error if status == "failed" else None
        assert state_after(status, error) == (state, kept), (status, error)


def test_any_name_becomes_a_folder_and_paths_are_made_once():
    for name, safe in {
        "digits": "digits",
        "a b/c": "a-b-c",
        "..": "run",
        "": "run",
        "nul.txt": "run-nul.txt",
        "x" * 79 + "..y": "x" * 79,
    }.items():
        assert folder_name(name) == safe
    paths = MetricPaths("training")
    assert paths["loss"] is paths["loss"]
    assert (paths["a/b"], MetricPaths("")["loss"]) == ("training/a/b", "loss")


def test_known_secret_is_hidden_in_saved_configurations(tmp_path):
    config = tmp_path / "config.yaml"
    for form in ("{}", "'{}'", '"{}"'):
        config.write_text("api_key: " + form.format("tok-1") + "\nname: x\n")
        hide_in_files(tmp_path, Secrets(known=("tok-1",)))
        assert config.read_text() == "api_key: null\nname: x\n"


CONFIGURATION = """\
# lightning==2
seed: 1
model:
  token: plain-5e1f    # of the server
  num_tokens: 5
  pad_token: <pad>
  passwords:
  - one-5e1f
  - 12345
  db: {url: "postgres://u:pw-5e1f@h/db", password: 'it''s-5e1f'}
  private_key: |
    -----BEGIN PRIVATE KEY-----
    line-5e1f
    -----END PRIVATE KEY-----
  note: >-
    folded text
    of two lines
  again: &known {api_key: key-5e1f}
  other: *known
"""


def test_secrets_are_hidden_by_name_and_shape_in_saved_configurations():
    """In every way YAML has of writing a string; it is YAML afterwards."""
    yaml = pytest.importorskip("yaml")
    hidden = without_secrets(CONFIGURATION, Secrets())
    assert "5e1f" not in hidden
    by_name = "*** (name looks like a secret)"
    given = yaml.safe_load(CONFIGURATION)
    given["model"] |= {
        "token": by_name,
        "passwords": [by_name, 12345],
        "db": {"url": "postgres://***@h/db", "password": by_name},
        "private_key": by_name,
        "again": {"api_key": by_name},
        "other": {"api_key": by_name},
    }
    assert yaml.safe_load(hidden) == given
    assert without_secrets(hidden, Secrets()) == hidden
    assert without_secrets(CONFIGURATION, Secrets(masked=False)) == CONFIGURATION
    # As of --model.secrets={...}; tokens of a vocabulary stay.
    text = "m:\n  secrets:\n    a: X\n  special_tokens: {pad: hello}\n  tokens: [a, b]\n"
    kept = yaml.safe_load(without_secrets(text, Secrets()))
    assert kept == yaml.safe_load(text.replace("a: X", f'a: "{by_name}"'))
    assert "5e1f" not in without_secrets("a: [\ntoken: plain-5e1f\n", Secrets())  # no YAML


@pytest.fixture
def run():
    logger = SeamarkLogger(capture={"git": False, "packages": False})
    yield logger.experiment
    logger.experiment.stop()


def test_secrets_are_hidden_in_hyperparameters_of_the_run_only():
    hyperparams = {"patient_id": "Bob", "hub": {"token": "t0k"}, "num_tokens": 5}
    given = copy.deepcopy(hyperparams)
    for secrets, kept in (
        (["patient_id"], {"patient_id": BY_NAME, "hub": {"token": BY_NAME}}),
        (False, {}),
    ):
        logger = SeamarkLogger(capture={"git": False, "packages": False}, secrets=secrets)
        logger.log_hyperparams(given)
        logger.experiment.stop()
        again = seamark.init_run(with_id=logger.version, mode="read-only")
        assert again["training/hyperparams"].fetch() == {**hyperparams, **kept}
    assert given == hyperparams


def callback(folder, state_key="A", **given):
    return SimpleNamespace(state_key=state_key, dirpath=str(Path(folder).absolute()), **given)


def save(path):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("x")
    return str(Path(path).absolute())


def test_saved_files_are_measured_again_at_the_end_of_the_process(run, monkeypatch):
    ends = []
    monkeypatch.setattr("atexit.register", ends.append)
    found, path = Checkpoints(run, "model", keep=False), save("a/last")
    for _ in range(3):
        found.saved(callback("a", last_model_path=path))
    Path(path).write_text("more")
    (end,) = (one for one in ends if "settle" in one.__name__)
    end()
    (file,) = run.session.recorded.attributes("model")
    assert file.value["size"] == 4


def test_callbacks_with_unexpected_attributes_are_accepted(run):
    found = Checkpoints(run, "model", keep=False)
    found.saved(object())
    found.saved(SimpleNamespace(best_model_path=object(), last_model_path="", best_k_models=None))
    one = Path("one.ckpt").absolute()
    one.write_text("x")
    odd = {"best_k_models": {one: 0.5}, "best_model_path": str(one), "best_model_score": 0}
    found.saved(SimpleNamespace(state_key="A", dirpath=str(one.parent), **odd))
    found.settle()
    attributes = run.session.recorded.attributes("model")
    written = {one.path.rpartition("/")[2]: one.value for one in attributes}
    assert written["best_model_score"] == 0.0
    assert "one" in written


def test_arguments_are_those_of_init_run_and_of_loggers():
    """Each by its name, with the same default, so that LightningCLI knows them all."""

    def parameters_of(function):
        found = inspect.signature(function).parameters.values()
        return {one.name: one.default for one in found if one.kind is not one.VAR_KEYWORD}

    own = dict.fromkeys(
        ("api_key", "run", "save_dir", "agg_key_funcs", "agg_default_func"), None
    ) | {"log_model_checkpoints": True, "prefix": "training", "log_graph": False}
    taken = parameters_of(SeamarkLogger.__init__)
    assert taken.pop("self") is inspect.Parameter.empty
    of_a_run = parameters_of(seamark.init_run)
    assert of_a_run.pop("first") is None  # without a name: a project or an id, of people only
    assert taken == {**of_a_run, **own}
    assert of_a_run.keys() == RunOptions.__annotations__.keys()
    hints = get_type_hints(SeamarkLogger.__init__)
    assert hints.keys() >= taken.keys()
    assert set(get_args(get_args(hints["mode"])[0])) == set(MODES)
    for name in taken:
        assert re.search(rf"^    {name}: \S", SeamarkLogger.__doc__, re.MULTILINE)

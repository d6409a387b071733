"""The logger by itself: its arguments, what Lightning asks of it, and what it writes where."""

from __future__ import annotations

import argparse
import copy
import dataclasses
import errno
import importlib
import math
import pickle
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import seamark
from seamark.errors import ArgumentError
from seamark.lightning import NeptuneLogger, SeamarkLogger
from seamark.types import File

SECRET = "tok-3f9a-do-not-keep"


def rank_of_lightning():
    return importlib.import_module("lightning_utilities.core.rank_zero").rank_zero_only


# ---------------------------------------------------------------- construction


WRONG = [
    ({"descripton": "typo"}, TypeError, "description"),  # the nearest
    *(
        ({name: "x"}, ValueError, f"{name}: use")  # of older loggers
        for name in ("project_name", "offline_mode", "experiment_name", "upload_stdout",
                     "close_after_fit")
    ),
    *(({"run": run}, ValueError, r"seamark\.init_run") for run in ("some string", 3, object())),
    ({"prefix": "a//b"}, ValueError, "prefix"),
    ({"prefix": "/a"}, ValueError, "prefix"),
    ({"project": "../up"}, ValueError, "project"),
    ({"custom_run_id": 3}, (ValueError, TypeError), "custom"),
]  # fmt: skip
ILLEGAL = [
    (
        {"log_model_checkpoints": "best"},
        "SeamarkLogger: log_model_checkpoints: expected True, False or None, got str: 'best'",
    ),
    (
        {"log_graph": "yes"},
        "SeamarkLogger: log_graph: expected True, False or None, got str: 'yes'",
    ),
    ({"checkpoints": "all"}, "checkpoints: expected one of 'reference', 'keep', got 'all'"),
    ({"ranks": 0}, "ranks: expected one of 'zero', 'all', got 0"),
    ({"resume": "always"}, "resume: expected one of 'auto', 'never', 'must', got 'always'"),
    ({"save_dir": 5}, "save_dir: expected a path or None, got int: 5"),
]


def test_wrong_arguments_are_refused_at_construction(tmp_path):
    """Whether or not they are of use for this logger, and before anything is on disk."""
    for given, error, says in WRONG:
        with pytest.raises(error, match=says):
            SeamarkLogger(**given)
    with pytest.raises(TypeError):
        SeamarkLogger("arguments are keywords")
    with pytest.raises(ArgumentError, match="root: expected a path or None, got int: 5"):
        SeamarkLogger(root=5)
    for given, says in ILLEGAL:
        for more in ({"root": tmp_path}, {"run": seamark.init_run("p", mode="disabled")}):
            with pytest.raises(ArgumentError) as caught:
                SeamarkLogger(**more | given)
            assert str(caught.value) == says
    with seamark.init_run(root=tmp_path) as run:
        for other in ("project", "name", "api_key", "tags", "foo"):
            with pytest.raises(ValueError, match=other):
                SeamarkLogger(run=run, **{other: "redundant"})
    assert list(Path.cwd().iterdir()) == []


def test_repr_names_project_id_name_and_place_and_begins_no_run(tmp_path):
    logger = SeamarkLogger(project="team/digits", name="first", root=tmp_path)
    run = logger.version
    assert repr(logger) == f"<SeamarkLogger of team/digits/{run} 'first' in {tmp_path}>"
    assert list(tmp_path.iterdir()) == []
    assert repr(pickle.loads(pickle.dumps(logger))) == repr(logger)
    assert repr(SeamarkLogger.__new__(SeamarkLogger)) == "<SeamarkLogger>"


def test_the_class_is_a_logger_of_lightning_and_the_removed_one_of_neptune(host):
    assert isinstance(SeamarkLogger(), host.loggers.Logger)
    assert NeptuneLogger is SeamarkLogger
    names = ("LOGGER_JOIN_CHAR", "PARAMETERS_KEY", "ARTIFACTS_KEY")
    assert [getattr(SeamarkLogger, name) for name in names] == ["/", "hyperparams", "artifacts"]


def test_aggregation_arguments_warn_once():
    with pytest.warns(UserWarning, match="agg_key_funcs") as caught:
        SeamarkLogger(agg_key_funcs={"loss": max}, agg_default_func=min)
    assert len([one for one in caught if "agg_key_funcs" in str(one.message)]) == 1


def test_nothing_on_disk_before_the_first_value(logger):
    assert logger.experiment is logger.run
    assert logger.name
    assert logger.version
    assert logger.save_dir
    logger.save()
    pickle.dumps(logger)
    copy.deepcopy(logger)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    "name", [None, "plain", "with space/and slash", "..", "ünï", "con", "a" * 300, ""]
)
def test_name_and_version_are_safe_as_folders(name):
    """Trainer makes folders of them; whatever a run is called."""
    logger = SeamarkLogger(name=name)
    for part in (logger.name, logger.version):
        assert isinstance(part, str)
        assert part == Path(part).name
        assert part not in {"", ".", ".."}
        assert len(part.encode()) <= 100
    folder = Path(logger.save_dir).resolve()
    assert (folder / logger.name / logger.version).resolve().is_relative_to(folder)


def test_two_loggers_share_no_folder(logger):
    """Otherwise LightningCLI refuses the second run in one working folder."""
    one, two = SeamarkLogger(name="same"), SeamarkLogger(name="same")
    assert one.save_dir != two.save_dir
    one, two = SeamarkLogger(save_dir="logs"), SeamarkLogger(save_dir="logs")
    assert one.save_dir == two.save_dir == "logs"
    assert (one.name, one.version) != (two.name, two.version)
    for given in (logger, one):
        assert given.log_dir == str(Path(given.save_dir, given.name, given.version))
    assert logger.group_separator == "/"


# ---------------------------------------------------------------- an existing run


def test_logger_on_a_run_records_below_its_prefix(read):
    run = seamark.init_run(name="mine")
    logger = SeamarkLogger(run=run)
    logger.log_metrics({"loss": 0.5}, step=3)
    assert logger.experiment is run
    assert (logger.version, logger.name) == (run.id, "mine")
    assert read(logger)["training/loss"].value.last == 0.5
    run.stop()


# ---------------------------------------------------------------- metrics


def test_metrics_keep_step_and_kind(logger, read):
    """The step as given, also when it repeats or falls; NaN and infinities are values."""
    for step, loss in [(0, 1.0), (5, float("nan")), (5, 2.0), (1, float("inf"))]:
        logger.log_metrics(metrics={"loss": loss}, step=step)
    logger.log_metrics({"loss": torch.tensor(3.0), "acc": torch.tensor([0.5])}, step=7)
    points = logger.experiment["training/loss"].fetch_points(attempt="all")
    assert [float(step) for step in points.step] == [0, 1, 5, 5, 7]
    values = [float(value) for value in points.value]
    assert values[:2] == [1.0, math.inf]
    assert math.isnan(values[2])
    assert values[3:] == [2.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = {"text": "abc", "none": None, "big": torch.zeros(3), "": 1.0, 5: 2.0}
        logger.log_metrics({**odd, "good": 4.0}, step=0)  # what cannot be kept does not raise
    found = read(logger)
    assert [found[f"training/{name}"].value.last for name in ("acc", "good")] == [0.5, 4.0]


def test_prefix_is_of_the_callers_choice(read):
    for prefix, path in [("", "loss"), ("a/b", "a/b/loss"), (None, "loss")]:
        logger = SeamarkLogger(prefix=prefix)
        logger.log_metrics({"loss": 1.0}, step=0)
        assert path in read(logger)


def test_save_costs_nothing(logger, monkeypatch):
    logger.log_metrics({"loss": 1.0}, step=0)
    journal = next(logger.experiment.folder.journal_dir.iterdir())
    size = journal.stat().st_size
    monkeypatch.setattr("os.write", None)
    monkeypatch.setattr("os.fsync", None)
    logger.save()
    monkeypatch.undo()
    assert journal.stat().st_size == size


# ---------------------------------------------------------------- hyperparameters


@dataclasses.dataclass
class Options:
    lr: float = 0.1
    layers: tuple = (1, 2)


def never():
    msg = "a hyperparameter was called"
    raise AssertionError(msg)


def test_hyperparameters_of_every_kind(logger, read):
    """Types are kept, containers nest, callables are names and are not called."""
    logger.log_hyperparams(
        {
            "lr": 0.1,
            "steps": 3,
            "flag": True,
            "nothing": None,
            "names": ["a", "b"],
            "nested": {"deep": {"x": 1}, "empty": {}},
            "space": argparse.Namespace(a=1),
            "options": Options(),
            "activation": nn.ReLU,
            "model": nn.Linear(2, 2),
            "callable": never,
            "tensor": torch.tensor([1.0, 2.0]),
            "weights": torch.zeros(1000),
            "nan": float("nan"),
            "config": "trainer:\n  max_epochs: 3\n",
        }
    )
    found = {
        path.removeprefix("training/hyperparams/"): one
        for path, one in read(logger, "training").items()
    }
    typed = {name: (found[name].value, found[name].type) for name in ("lr", "steps", "flag")}
    assert typed == {"lr": (0.1, "float"), "steps": (3, "int"), "flag": (True, "bool")}
    expected = {"nothing": None, "names": ["a", "b"], "nested/deep/x": 1, "space/a": 1,
                "options/lr": 0.1, "activation": "ReLU"}  # fmt: skip
    assert {name: found[name].value for name in expected} == expected
    assert "never" in found["callable"].value
    assert "Linear" in found["model"].value
    assert found["config"].value.startswith("trainer:")


def test_hyperparameters_of_omegaconf(logger, read):
    omegaconf = pytest.importorskip("omegaconf")
    logger.log_hyperparams(omegaconf.OmegaConf.create({"lr": 0.5, "net": {"width": "${lr}"}}))
    assert read(logger)["training/hyperparams/net/width"].value == 0.5


def test_unchanged_hyperparameters_write_nothing(logger):
    logger.log_hyperparams({"lr": 0.1, "net": {"width": 3}, "nan": float("nan")})
    journal = next(logger.experiment.folder.journal_dir.iterdir())
    size = journal.stat().st_size
    logger.log_hyperparams({"lr": 0.1, "net": {"width": 3}, "nan": float("nan")})
    assert journal.stat().st_size == size
    logger.log_hyperparams({"lr": 0.2, "net": {"width": 3}})
    assert size < journal.stat().st_size < size + 200


def test_hyperparameters_come_back_when_the_disk_has_room_again(logger, read, monkeypatch):
    """What was not written is not taken for written."""
    logger.log_metrics({"loss": 1.0}, step=0)

    def full(*given):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr("os.write", full)
        logger.log_hyperparams({"lr": 0.1})
    logger.log_hyperparams({"lr": 0.1})
    assert read(logger)["training/hyperparams/lr"].value == 0.1


def test_secret_in_a_configuration_is_not_recorded():
    """LightningCLI hands over its whole configuration, in which our own arguments stand."""
    logger = SeamarkLogger(api_key=SECRET)
    logger.log_hyperparams({"config": f"logger:\n  api_key: {SECRET}\n", "list": [SECRET]})
    logger.experiment.stop()
    for path in Path.cwd().rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


# ---------------------------------------------------------------- model


def test_model_summary(tiny, logger, read):
    logger.log_model_summary(tiny, max_depth=-1)
    found = read(logger)["training/model/summary"]
    assert (found.family, found.value["ext"]) == ("file", "txt")
    logger.experiment["training/model/summary"].download("summary.txt")
    assert "layer" in Path("summary.txt").read_text()


def test_graph_without_an_example_runs_nothing(helpers, read):
    """The modules are listed; no forward pass is made up."""
    logger = SeamarkLogger(log_graph=True)
    model = helpers.module_class()()
    model.forward = never
    logger.log_graph(model)
    logger.experiment["training/model/graph"].download("graph.txt")
    assert "Linear" in Path("graph.txt").read_text()


def test_graph_with_an_example_changes_nothing_in_the_model(helpers, read):
    """Neither the random numbers, nor modes, nor batch statistics."""
    logger = SeamarkLogger(log_graph=True)
    model = helpers.module_class()()
    model.layer = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    model.layer[1].eval()
    model.example_input_array = torch.ones(5, 4)
    before = copy.deepcopy(model.state_dict())
    random = torch.random.get_rng_state()
    logger.log_graph(model)
    assert torch.equal(random, torch.random.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert model.layer[0].training
    assert not model.layer[1].training
    assert not any(module._forward_hooks for module in model.modules())
    logger.experiment["training/model/graph"].download("graph.txt")
    text = Path("graph.txt").read_text()
    assert "[5, 4]" in text
    assert "[5, 3]" in text


@pytest.mark.filterwarnings("ignore")
def test_graph_never_raises_and_is_off_by_default(helpers, tiny, logger):
    logger.log_graph(tiny)
    assert list(Path.cwd().iterdir()) == []
    logger, model = SeamarkLogger(log_graph=True), helpers.module_class()()
    model.example_input_array = torch.ones(5, 99)
    logger.log_graph(model)
    logger.log_graph(None)


# ---------------------------------------------------------------- deprecated methods


def test_deprecated_methods_warn_and_work(logger, read):
    """They say what to write instead."""
    Path("file.txt").write_text("content")
    for call, given, says in [
        (logger.log_metric, ("metric", torch.tensor(1.5)), r"append\(42\)"),
        (logger.log_text, ("text", "words"), "append"),
        (logger.log_image, ("image", "file.txt"), "append"),
        (logger.log_artifact, ("file.txt",), "upload"),
        (logger.log_artifact, ("named", "file.txt"), "upload"),
    ]:
        with pytest.warns(UserWarning, match=says):
            call(*given)
    found = read(logger, "training")
    assert {path.removeprefix("training/"): one.family for path, one in found.items()} == {
        "metric": "float_series",
        "text": "string_series",
        "image": "file_series",
        "artifacts/file.txt": "file",
        "artifacts/named": "file",
    }
    assert found["training/artifacts/named"].value["size"] == len("content")


def test_removed_methods_and_those_of_other_loggers_say_what_to_write_instead(logger):
    """At once, and honestly for who asks whether they are there."""
    for call, says in [
        (lambda: logger.set_property("a", 1), r"run\[.path.\] = value"),
        (lambda: logger.append_tags("a"), "sys/tags"),
        (lambda: logger.watch("model"), r"run = logger\.experiment, run\[.path.\]\.append"),
        (
            lambda: logger.experiment.add_scalar("loss", 1.0, 1),
            r"run\[.path.\]\.append\(value, step=step\)",
        ),
    ]:
        with pytest.raises(AttributeError, match=says):
            call()
    assert not hasattr(logger, "watch")
    assert not hasattr(logger.experiment, "add_image")
    with pytest.raises(TypeError, match="log_image"):
        logger.log_image(key="x", images=[1])


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["deepcopy", "pickle"]
)
def test_copies_are_the_same_run(how, recorded, read):
    """A copy makes no run; what it records goes to the run that it was copied from."""
    logger = SeamarkLogger(name="copied", project="team/net", tags=["x"])
    if recorded:
        logger.log_metrics({"loss": 1.0}, step=0)
    before = sorted(Path.cwd().rglob("*"))
    other = how(logger)
    assert sorted(Path.cwd().rglob("*")) == before
    for name in ("name", "version", "save_dir"):
        assert getattr(other, name) == getattr(logger, name)
    other.log_metrics({"acc": 1.0}, step=1)
    found = read(other)
    assert found["training/acc"].value.last == 1.0
    assert ("training/loss" in found) is recorded
    assert found["sys/name"].value == "copied"
    assert found["sys/tags"].value == {"x"}
    assert len(list(Path.cwd().glob(".seamark/team/net/*"))) == 1


def test_copies_hold_no_secret():
    proxies = {"https": f"http://user:{SECRET}@proxy"}
    logger = SeamarkLogger(api_key=SECRET, proxies=proxies)
    token = SeamarkLogger(api_token=SECRET)
    for one in (logger, token):
        assert SECRET.encode() not in pickle.dumps(one)
        assert SECRET not in repr(vars(copy.deepcopy(one)))
        assert SECRET not in repr(one)
    logger.log_metrics({"a": 1.0}, step=0)
    assert SECRET.encode() not in pickle.dumps(logger)
    assert proxies == {"https": f"http://user:{SECRET}@proxy"}


@pytest.mark.parametrize("how", ["stopped", "read-only"])
def test_nothing_raises_where_nothing_can_be_recorded(tiny, caplog, how):
    """After the run was stopped, or on one that is read; it is said once."""
    logger = SeamarkLogger(log_graph=True)
    logger.log_metrics({"a": 1.0}, step=0)
    if how == "stopped":
        logger.experiment.stop()
    else:
        logger = SeamarkLogger(with_id=logger.version, mode="read-only", log_graph=True)
    for _ in range(3):
        logger.log_metrics({"b": 1.0}, step=1)
        logger.log_hyperparams({"lr": 1})
        logger.log_graph(tiny)
        logger.log_model_summary(tiny)
        logger.after_save_checkpoint(object())
        logger.finalize("success")
    assert 1 <= len(caplog.records) <= 2


def test_logger_of_a_given_run_pickles(read):
    run = seamark.init_run(project="given")
    logger = SeamarkLogger(run=run["inner"])
    logger.log_metrics({"a": 1.0}, step=0)
    other = pickle.loads(pickle.dumps(logger))
    other.log_metrics({"b": 2.0}, step=0)
    found = read(other)
    assert {"inner/training/a", "inner/training/b"} <= set(found)
    run.stop()


# ---------------------------------------------------------------- other ranks


def test_other_ranks_record_nothing(logger, tiny):
    """Every verb of a Run does nothing there, and no method that Lightning calls."""
    rank_of_lightning().rank = 1
    experiment = logger.experiment
    assert logger.run is experiment
    experiment["a/b"] = 1
    experiment["a"]["b"].append(1.0, step=3)
    experiment["a"].extend([1.0, 2.0])
    experiment["tags"].add("x")
    experiment["file"].upload(File.from_content("x"))
    experiment.log_metrics({"a": 1.0}, step=1)
    del experiment["a"]
    assert experiment.exists("a") is False
    experiment.wait()
    experiment.sync()
    assert list(experiment["a"]) == []
    assert "a" not in experiment
    assert experiment["a/b"].fetch() is None
    experiment.stop()
    logger.log_hyperparams({"lr": 1})
    logger.log_metrics({"a": 1.0}, step=0)
    logger.log_graph(tiny)
    logger.log_model_summary(tiny)
    logger.save()
    logger.finalize("success")
    assert logger.name
    assert logger.version
    assert list(Path.cwd().iterdir()) == []


def test_rank_is_looked_at_when_it_matters(logger, read):
    """Under Horovod and in spawned children it is not known at construction."""
    rank_of_lightning().rank = 1
    logger.log_metrics({"a": 1.0}, step=0)
    rank_of_lightning().rank = 0
    logger.log_metrics({"b": 1.0}, step=0)
    found = read(logger)
    assert "training/b" in found
    assert "training/a" not in found


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK"])
def test_rank_of_a_launcher_counts(logger, monkeypatch, name):
    """Lightning 1.9 does not know some of these until its Trainer is made."""
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("WORLD_SIZE", "2")
    logger.log_metrics({"a": 1.0}, step=0)
    assert list(Path.cwd().iterdir()) == []


def test_disabled_logger_records_nothing(trainer, tiny):
    logger = SeamarkLogger(mode="disabled")
    fit = trainer(logger=logger)
    fit.fit(tiny)
    assert not list(Path.cwd().rglob("journal"))


# ---------------------------------------------------------------- how a training is distributed


def distributed(found, above=""):
    space = f"{above}distributed/"
    return {path.removeprefix(space): one.value for path, one in found.items() if space in path}


def test_logger_on_a_namespace(trainer, tiny, read):
    """Everything goes below that path, but for the version of the integration.

    How it is distributed is known from the first stage on; the batch size as soon as there are
    data.
    """
    run = seamark.init_run(capture={"packages": False, "git": False})
    logger = SeamarkLogger(run=run["folds/1"])
    fit = trainer(logger=logger, accumulate_grad_batches=2, max_epochs=2)
    fit.validate(tiny, verbose=False)
    first = distributed(read(logger), "folds/1/")
    fit.fit(tiny)
    logger.experiment["note"] = "inside"
    found = read(logger)
    run.stop()
    counts = {"world_size": 1, "nodes": 1, "devices": 1, "accelerator": "cpu"}
    known = counts | {"strategy": "SingleDeviceStrategy", "precision": str(fit.precision)}
    assert first == known
    batch = {"batch_size": 4, "accumulate_grad_batches": 2, "effective_batch_size": 8}
    assert distributed(found, "folds/1/") == known | batch
    assert found["folds/1/note"].value == "inside"
    assert found["folds/1/training/train/loss"].value.count == 2
    assert found["folds/1/training/hyperparams/width"].value == 2
    assert found["folds/1/training/model/checkpoints/epoch=1-step=2"].family == "file"
    assert found["folds/1/training/status"].value == "success"
    assert "source_code/integrations/pytorch-lightning" in found
    assert logger.version == run.id


def test_a_training_that_logs_nothing_tells_its_batch_size(trainer, tiny, read, logger):
    """At its end, as no metric comes before."""
    tiny.log = tiny.log_dict = lambda *_args, **_named: None
    trainer(logger=logger).fit(tiny)
    assert distributed(read(logger))["batch_size"] == 4


def test_facts_of_data_that_do_not_say_their_size(trainer, tiny, read, logger):
    batches = torch.utils.data.TensorDataset(torch.randn(2, 1, 4))
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    trainer(logger=logger).fit(tiny, train_dataloaders=loader)
    found = distributed(read(logger))
    assert "batch_size" not in found
    assert found["world_size"] == 1
    assert "monitoring/seamark/dropped" not in read(logger)


def test_all_ranks_of_one(host, trainer, tiny, read):
    """A rank alone records as ever, and the times of its steps, to this logger only."""
    logger = SeamarkLogger(ranks="all")
    other = SeamarkLogger()
    trainer(logger=[logger, other]).fit(tiny)
    found = read(logger)
    assert found["training/train/loss"].value.count == 2
    for name in ("step_time_s", "own_time_s"):
        assert found[f"profiling/{name}"].value.count == 2
    assert not [path for path in found if "ranks/" in path]
    assert not read(other, "profiling")

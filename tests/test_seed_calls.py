"""Calls on a run that people wrote for Neptune and Lightning, with only the import changed."""

from __future__ import annotations

import numpy as np
import pytest

import seamark as neptune
from seamark.types import File


@pytest.fixture
def run(tmp_path):
    """A run begun with the arguments that the examples pass on to Neptune."""
    with neptune.init_run(
        project="common/lightning-examples",
        api_token="ANONYMOUS",
        name="lightning-run",
        description="quick run of an MLP",
        tags=["mlp", "quick-run"],
        root=tmp_path / "root",
        capture_stdout=False,
        capture_stderr=False,
        capture_hardware_metrics=False,
        source_files=[],
        capture={"git": False, "packages": False},
    ) as run:
        yield run


def test_identity_is_read_back(run):
    """A logger asks the run for its id and name right after the start."""
    run.wait()
    assert run["sys/id"].fetch() == run.id
    assert run["sys/name"].fetch() == "lightning-run"
    assert run["sys/tags"].fetch() == {"mlp", "quick-run"}


def test_metrics_and_texts_are_logged_one_by_one(run):
    """``run[key].log(value)``, with and without a step, for numbers, tensors' values and texts."""
    for loss in (0.9, np.float32(0.5), np.array(0.25)):
        run["training/train/loss"].log(loss)
    run["training/val/acc"].log(0.5, step=10)
    run["training/notes"].log("finished warming up", step=3)
    assert run["training/train/loss"].fetch_points().value.tolist() == [0.9, 0.5, 0.25]
    assert run["training/train/loss"].fetch_points().step.tolist() == [0, 1, 2]
    assert run["training/val/acc"].fetch_points().step.tolist() == [10]
    assert run["training/notes"].fetch_last() == "finished warming up"


def test_any_metadata_is_logged_into_a_structure_of_ones_own(run):
    """``run["your/structure"].log(metadata)`` takes what a series can hold, and mappings of it."""
    run["your/metadata/structure"].log(0.7)
    run["your/metadata/text"].log("anything")
    run["your/metadata/several"].log({"precision": 0.8, "recall": 0.6})
    assert run["your/metadata/structure"].fetch() == 0.7
    assert run["your/metadata/several/recall"].fetch() == 0.6


def test_hyperparameters_keep_their_structure(run):
    """A dict of parameters is assigned in one line, below any path."""
    parameters = {"batch_size": 64, "lr": 0.07, "decay_factor": 0.97, "head": {"layers": [8, 4]}}
    run["training/hyperparams"] = parameters
    run["model/hyper-parameters"] = parameters
    assert run["model/hyper-parameters"].fetch() == parameters
    assert run["training/hyperparams/head/layers"].fetch() == [8, 4]


def test_images_are_logged(run, tmp_path):
    """An array as an image, and an image file by its path, are points of a file series."""
    (tmp_path / "figure.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    run["train/misclassified_images"].log(File.as_image(np.zeros((8, 8))))
    run["train/misclassified_images"].log(File(str(tmp_path / "figure.png")))
    run["train/misclassified_images"].download(str(tmp_path / "out"))
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".png", ".png"]


def test_a_summary_is_a_text_file(run):
    """Content is assigned as a file with an extension."""
    run["training/model/summary"] = File.from_content(content="Net(\n)", extension="txt")
    run.wait()
    assert run["training/model/summary"].fetch_extension() == "txt"


def test_status_scores_and_paths(run):
    """What a logger writes at the end: a status, a path, and a score as a NumPy array."""
    run["training/status"] = "success"
    run["training/model/best_model_path"] = "/tmp/epoch=3.ckpt"
    run["training/model/best_model_score"] = np.array(0.125, dtype=np.float32)
    assert run["training/status"].fetch() == "success"
    assert run["training/model/best_model_score"].fetch() == 0.125


def test_checkpoints_come_and_go(run, tmp_path):
    """Models are uploaded, looked up in the structure, and deleted when they are no longer best."""
    namespace = "training/model/checkpoints"
    assert not run.exists(namespace)
    for name in ("epoch=0-step=10", "epoch=1-step=20", "last"):
        (tmp_path / f"{name}.ckpt").write_bytes(name.encode())
        run[f"{namespace}/{name}"].upload(str(tmp_path / f"{name}.ckpt"))
    assert run.exists(namespace)
    structure = run.get_structure()
    for part in namespace.split("/"):
        structure = structure[part]
    assert set(structure) == {"epoch=0-step=10", "epoch=1-step=20", "last"}
    del run[f"{namespace}/epoch=0-step=10"]
    structure = run.get_structure()["training"]["model"]["checkpoints"]
    assert set(structure) == {"epoch=1-step=20", "last"}


def test_tags_are_added_later(run):
    """The replacement of the old ``append_tags``."""
    run["sys/tags"].add(["foo", "bar"])
    assert run["sys/tags"].fetch() == {"mlp", "quick-run", "foo", "bar"}


def test_logging_after_the_training(run):
    """The run stays open for what a script adds after fit and test."""
    run["training/status"] = "success"
    run["your/metadata/structure"].log("added later")
    assert run["your/metadata/structure"].fetch() == "added later"


def test_the_integration_leaves_its_version(run):
    """Adapters say under ``source_code/integrations`` which version recorded the run."""
    run["source_code/integrations/pytorch-lightning"] = "2.6.6"
    assert run["source_code/integrations/pytorch-lightning"].fetch() == "2.6.6"

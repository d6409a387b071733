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


def test_what_a_logger_writes(run):
    """Identity, hyperparameters, metrics, texts, a summary, a status, scores and later tags."""
    run.wait()
    assert run["sys/id"].fetch() == run.id
    assert run["sys/name"].fetch() == "lightning-run"
    parameters = {"batch_size": 64, "lr": 0.07, "head": {"layers": [8, 4]}}
    run["training/hyperparams"] = parameters
    run["model/hyper-parameters"] = parameters
    assert run["model/hyper-parameters"].fetch() == parameters
    assert run["training/hyperparams/head/layers"].fetch() == [8, 4]
    for loss in (0.9, np.float32(0.5), np.array(0.25)):
        run["training/train/loss"].log(loss)
    run["training/val/acc"].log(0.5, step=10)
    run["training/notes"].log("finished warming up", step=3)
    run["your/metadata/structure"].log({"precision": 0.8, "recall": 0.6})
    assert run["training/train/loss"].fetch_points().value.tolist() == [0.9, 0.5, 0.25]
    assert run["training/val/acc"].fetch_points().step.tolist() == [10]
    assert run["training/notes"].fetch_last() == "finished warming up"
    assert run["your/metadata/structure/recall"].fetch() == 0.6
    run["training/model/summary"] = File.from_content(content="Net(\n)", extension="txt")
    run["training/status"] = "success"
    run["training/model/best_model_score"] = np.array(0.125, dtype=np.float32)
    run["source_code/integrations/pytorch-lightning"] = "2.6.6"
    run["sys/tags"].add(["foo", "bar"])
    run.wait()
    assert run["training/model/summary"].fetch_extension() == "txt"
    assert run["training/status"].fetch() == "success"
    assert run["training/model/best_model_score"].fetch() == 0.125
    assert run["source_code/integrations/pytorch-lightning"].fetch() == "2.6.6"
    assert run["sys/tags"].fetch() == {"mlp", "quick-run", "foo", "bar"}


def test_images_are_logged(run, tmp_path):
    """An array as an image, and an image file by its path, are points of a file series."""
    (tmp_path / "figure.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    run["train/misclassified_images"].log(File.as_image(np.zeros((8, 8))))
    run["train/misclassified_images"].log(File(str(tmp_path / "figure.png")))
    run["train/misclassified_images"].download(str(tmp_path / "out"))
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".png", ".png"]


def test_checkpoints_come_and_go(run, tmp_path):
    """Models are uploaded, looked up in the structure, and deleted when they are no longer best."""
    namespace, names = "training/model/checkpoints", ("epoch=0-step=10", "epoch=1-step=20", "last")
    assert not run.exists(namespace)
    for name in names:
        (tmp_path / f"{name}.ckpt").write_bytes(name.encode())
        run[f"{namespace}/{name}"].upload(str(tmp_path / f"{name}.ckpt"))
    assert set(run.get_structure()["training"]["model"]["checkpoints"]) == {*names}
    del run[f"{namespace}/{names[0]}"]
    assert set(run.get_structure()["training"]["model"]["checkpoints"]) == {*names[1:]}

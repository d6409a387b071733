"""What only shows in a process of its own: how it ends, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.index.index import Index

TESTS = Path(__file__).parent
PROGRAM = """
import importlib, json, os, signal, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
host = importlib.import_module({host!r})
import conftest
from seamark.lightning import SeamarkLogger
Tiny = conftest.module_class(host)
Tiny.__module__, Tiny.__qualname__ = "__main__", "Tiny"  # so that it pickles
quiet = dict(
    accelerator="cpu", log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
    num_sanity_val_steps=0, max_epochs=3,
)
from seamark.lightning import _host
tops = {{name.split(".")[0] for name in sys.modules}}
print(json.dumps([_host.PACKAGES, "pytorch_lightning" in tops, "lightning" in tops]), flush=True)
with tempfile.TemporaryDirectory() as folder:
    saver = host.callbacks.ModelCheckpoint(dirpath=folder, filename="{{epoch}}", save_top_k=2,
    monitor="step", mode="max", save_last=True)
    logger = SeamarkLogger(project="kept", checkpoints="keep")
    host.Trainer(logger=logger, callbacks=[saver], **quiet).fit(Tiny())
assert isinstance(logger, host.loggers.Logger)
plugins = importlib.import_module(host.__name__ + ".plugins.io")
fabric = "lightning.fabric" if host.__name__ == "lightning.pytorch" else "lightning_fabric"
base = importlib.import_module(fabric + ".plugins.io.torch_io").TorchCheckpointIO

class Slow(base):
    def save_checkpoint(self, *args, **kwargs):
        time.sleep(0.2)
        super().save_checkpoint(*args, **kwargs)

model = Tiny()
model._log_hyperparams = False  # so that the first record is a metric
model.at_step = lambda m: m.seen == 3 and 1 / 0
saver = host.callbacks.ModelCheckpoint(dirpath="kept", filename="{{epoch}}")
plugins = [plugins.AsyncCheckpointIO(Slow())]
logger = SeamarkLogger(project="failed")
host.Trainer(logger=logger, callbacks=[saver], plugins=plugins, **quiet).fit(model)
"""

pytestmark = pytest.mark.launches


def attributes(project):
    """Read the only run of a project."""
    root = Path(".seamark").absolute()
    index = Index.open(root)
    index.refresh(project)
    ((_, run),) = index.runs(project)
    found = {one.path: one for one in index.view(project, run).attributes()}
    index.close()
    return found


def test_records_are_whole_when_a_process_ends(helpers):
    """Kept checkpoints outlive their folder, and what is written after ``finalize`` is recorded.

    In a first project nobody asked for the removal of files but the callback, which removed the
    first; in the second the writer is slow, and the process fails. The logger derives from the
    Lightning that is running, and does not load the other.
    """
    Path("program.py").write_text(PROGRAM.format(tests=str(TESTS), host=helpers.package))
    done = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    package, one, other = json.loads(done.stdout.splitlines()[0])
    assert package == [helpers.package]
    assert [one, other].count(True) == 1
    kept = {
        path.rpartition("/")[2]: one.value
        for path, one in attributes("kept").items()
        if one.family == "file" and "/checkpoints/" in path
    }
    assert sorted(kept) == ["epoch=1", "epoch=2", "last"]
    blobs = {blob.name for blob in Path(".seamark").glob("kept/*/blobs/*")}
    assert {value["sha256"] for value in kept.values()} <= blobs
    assert Path("kept/epoch=0.ckpt").is_file()
    assert "training/model/checkpoints/epoch=0" in attributes("failed")


def test_missing_host_is_named():
    """Without Lightning the error says what to install."""
    code = (
        "import sys\n"
        "sys.modules['lightning'] = sys.modules['pytorch_lightning'] = None\n"
        "try:\n    import seamark.lightning\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    assert "seamark[lightning]" in done.stdout

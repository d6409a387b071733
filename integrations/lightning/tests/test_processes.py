"""What only shows in a process of its own: how it ends, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.index.index import Index

TESTS = Path(__file__).parent
HEAD = """
import importlib, os, signal, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
host = importlib.import_module({host!r})
import conftest
from seamark.lightning import SeamarkLogger
Tiny = conftest.module_class(host)
Tiny.__module__, Tiny.__qualname__ = "__main__", "Tiny"  # so that it pickles
quiet = dict(accelerator="cpu", log_every_n_steps=1, enable_progress_bar=False,
enable_model_summary=False,
             num_sanity_val_steps=0, max_epochs=1)
"""

pytestmark = pytest.mark.launches


@pytest.fixture
def run_program(helpers):
    """Run a program after HEAD; returns the finished process, whatever its exit code."""

    def start(body):
        text = HEAD.format(tests=str(TESTS), host=helpers.package) + body
        Path("program.py").write_text(text)
        return subprocess.run(
            [sys.executable, "program.py"], capture_output=True, text=True, timeout=240, check=False
        )

    return start


def attributes():
    """Read the only run of the default project."""
    root = Path(".seamark").absolute()
    index = Index.open(root)
    index.refresh("default")
    ((_, run),) = index.runs("default")
    found = {one.path: one for one in index.view("default", run).attributes()}
    index.close()
    return found


def test_async_checkpoints_of_a_process_that_fails(run_program):
    """What is written after ``finalize`` is recorded before the process ends."""
    done = run_program(
        """
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
quiet["max_epochs"] = 3
saver = host.callbacks.ModelCheckpoint(dirpath="kept", filename="{epoch}")
host.Trainer(logger=SeamarkLogger(), callbacks=[saver], plugins=[plugins.AsyncCheckpointIO(Slow())],
**quiet).fit(model)
"""
    )
    assert done.returncode == 1
    assert Path("kept/epoch=0.ckpt").is_file()
    assert "training/model/checkpoints/epoch=0" in attributes()


def test_kept_checkpoints_outlive_a_temporary_folder(run_program):
    """Nobody asked for their removal but the callback, which removed the first."""
    done = run_program(
        """
import tempfile
quiet["max_epochs"] = 3
with tempfile.TemporaryDirectory() as folder:
    saver = host.callbacks.ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=2,
    monitor="step", mode="max", save_last=True)
    host.Trainer(logger=SeamarkLogger(checkpoints="keep"), callbacks=[saver], **quiet).fit(Tiny())
"""
    )
    assert done.returncode == 0, done.stderr
    kept = {
        path.rpartition("/")[2]: one.value
        for path, one in attributes().items()
        if one.family == "file" and "/checkpoints/" in path
    }
    assert sorted(kept) == ["epoch=1", "epoch=2", "last"]
    blobs = {blob.name for blob in Path(".seamark").glob("default/*/blobs/*")}
    assert {value["sha256"] for value in kept.values()} <= blobs


def test_only_one_package_is_imported(run_program, helpers):
    """The logger derives from the Lightning that is running, and does not load the other."""
    done = run_program(
        """
import json
from seamark.lightning import _host
tops = {name.split(".")[0] for name in sys.modules}
logger = SeamarkLogger()
print(json.dumps([isinstance(logger, host.loggers.Logger), _host.PACKAGES, "pytorch_lightning" in
tops, "lightning" in tops]))
"""
    )
    assert done.returncode == 0, done.stderr
    is_logger, package, one, other = json.loads(done.stdout.splitlines()[-1])
    assert is_logger
    assert package == [helpers.package]
    assert [one, other].count(True) == 1


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

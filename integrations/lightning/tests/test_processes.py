"""What only shows in processes of their own: launchers, exit codes, imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.fixture
def run_program(helpers):
    """Run a program after HEAD; returns the finished process, whatever its exit code."""

    def start(body):
        text = HEAD.format(tests=str(TESTS), host=helpers.package) + body
        Path("program.py").write_text(text)
        return subprocess.run(
            [sys.executable, "program.py"], capture_output=True, text=True, timeout=120, check=False
        )

    return start


def attributes(project="default"):
    """Read the only run of a project."""
    from seamark.store.index import Index

    root = Path(".seamark").absolute()
    index = Index.open(root)
    index.refresh(project)
    ((_, run),) = index.runs(project)
    found = {one.path: one for one in index.view(project, run).attributes()}
    index.close()
    return found


def journals(project="default"):
    return list(Path(".seamark", project).glob("*/journal/*"))


@pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork"])
def test_children_of_a_trainer(run_program, strategy):
    """Rank 0 is a child, which gets the logger pickled or forked; there is one run."""
    done = run_program(
        f"""
def main():
    logger = SeamarkLogger(name="spawned", tags=["x"])
    trainer = host.Trainer(logger=logger, strategy={strategy!r}, devices=2, **quiet)
    trainer.fit(Tiny())
    trainer.test(Tiny(), verbose=False)
    print(logger.version)

if __name__ == "__main__":
    main()
"""
    )
    assert done.returncode == 0, done.stderr
    found = attributes()
    assert found["sys/id"].value == done.stdout.split()[-1]
    assert found["sys/name"].value == "spawned"
    assert found["sys/state"].value == "completed"
    assert found["training/train/loss"].value.count == 1
    assert found["training/test/loss"].value.count == 1
    assert found["training/model/checkpoints/epoch=0-step=1"].family == "file"
    assert len(journals()) == 2  # the child of fit and the child of test


def test_ddp_script(run_program):
    """Every process runs the script and makes a logger; rank 1 records nothing and has a dummy."""
    done = run_program(
        """
class Dummies(host.callbacks.Callback):
    def on_train_batch_start(self, trainer, *given):
        dummy = importlib.import_module(host.__name__ + ".loggers.logger").DummyExperiment
        assert isinstance(trainer.logger.experiment, dummy) is (trainer.global_rank > 0)
        trainer.logger.experiment["own"].append(1.0)

quiet |= {"strategy": "ddp", "devices": 2, "callbacks": [Dummies()]}
host.Trainer(logger=SeamarkLogger(), **quiet).fit(Tiny())
"""
    )
    assert done.returncode == 0, done.stderr
    assert len(journals()) == 1
    assert attributes()["own"].value.count == 1


def test_failure_has_the_same_exit_code(run_program):
    done = run_program(
        """
model = Tiny()
model.at_step = lambda m: 1 / 0
host.Trainer(logger=SeamarkLogger(), **quiet).fit(model)
"""
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    found = attributes()
    assert found["sys/state"].value == "failed"
    assert any(
        "traceback" in path and "ZeroDivisionError" in str(one.value) for path, one in found.items()
    )


def test_normal_end_completes(run_program):
    done = run_program("host.Trainer(logger=SeamarkLogger(), **quiet).fit(Tiny())\n")
    assert done.returncode == 0, done.stderr
    assert attributes()["sys/state"].value == "completed"


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


def test_only_one_package_is_imported(run_program, helpers):
    """The logger derives from the Lightning that is running, and does not load the other."""
    done = run_program(
        """
import json
from seamark.lightning import _host
tops = {name.split(".")[0] for name in sys.modules}
logger = SeamarkLogger()
print(json.dumps([isinstance(logger, host.loggers.Logger), _host.PACKAGE, "pytorch_lightning" in
tops, "lightning" in tops]))
"""
    )
    assert done.returncode == 0, done.stderr
    is_logger, package, one, other = json.loads(done.stdout.splitlines()[-1])
    assert is_logger
    assert package == helpers.package
    assert [one, other].count(True) == 1


def test_logger_imported_first(run_program, helpers):
    """Whichever package the logger chose, the Trainer of the other takes it."""
    Path("first.py").write_text(
        "from seamark.lightning import SeamarkLogger\n"
        f"import {helpers.package} as host\n"
        "logger = SeamarkLogger()\n"
        "assert isinstance(logger, host.loggers.Logger)\n"
        "assert issubclass(SeamarkLogger, host.loggers.Logger)\n"
    )
    subprocess.run([sys.executable, "first.py"], check=True, timeout=60)


def test_missing_host_is_named():
    """Without Lightning the error says what to install."""
    code = (
        "import sys\n"
        "sys.modules['lightning'] = sys.modules['pytorch_lightning'] = None\n"
        "try:\n    import seamark.lightning\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "seamark[lightning]" in done.stdout

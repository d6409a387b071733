"""Signals, exceptions and Ctrl-C end a training the same way with us and without us.

The same program runs twice: as it is, and with a run that was started before the Trainer (whose
handlers Lightning finds) or with a logger (which may install its own over Lightning's). What it
prints (every hook of a callback), its exit code and the checkpoints that it leaves must be equal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.journal.folder import iter_runs
from seamark.journal.reader import JournalReader, decode_json

TESTS = Path(__file__).parent
OP = 2
HOST = "pytorch_lightning"  # installed in every environment here; one name is enough

PROGRAM = """
import importlib, os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
host = importlib.import_module({host!r})
import conftest
way, what = sys.argv[1:]
run, logger = None, False
if way == "run":
    import seamark
    run = seamark.init_run(capture_packages=False)
if way == "logger":
    from seamark.lightning import SeamarkLogger
    logger = SeamarkLogger(capture_packages=False)

class Told(host.Callback):
    def on_train_start(self, trainer, module): print("train start")
    def on_train_batch_start(self, trainer, module, batch, index):
        if trainer.global_step == 1: strike()
    def on_train_batch_end(self, *_): print("batch end")
    def on_save_checkpoint(self, *_): print("save")
    def on_exception(self, trainer, module, error): print("exception", type(error).__name__)
    def on_train_end(self, *_): print("train end")
    def on_fit_end(self, *_): print("fit end")
    def teardown(self, *_, **__): print("teardown")

def strike():
    print("strike")
    sys.stdout.flush()
    if what == "exception": raise ValueError("in training")
    os.kill(os.getpid(), getattr(signal, what))
    for _ in range(1000): pass

model = conftest.module_class(host)()
saver = host.callbacks.ModelCheckpoint(dirpath="saved", every_n_train_steps=1, save_top_k=-1)
trainer = host.Trainer(
    accelerator="cpu", devices=1, max_epochs=2, log_every_n_steps=1, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0, logger=logger, callbacks=[Told(), saver],
)
trainer.fit(model)
print("after fit", trainer.global_step)
"""


SLURM = {
    "SLURM_NTASKS": "1",
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NODELIST": "localhost",
}


def run_program(folder, way, what, env):
    """Run the program; return (exit code, lines printed, checkpoints left), and stderr."""
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM.format(tests=str(TESTS), host=HOST))
    done = subprocess.run(
        [sys.executable, "program.py", way, what],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    saved = sorted(path.name for path in folder.rglob("*.ckpt"))
    return (done.returncode, done.stdout.splitlines(), saved), done.stderr


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return how the program ends without us; each strike is run once."""
    known = {}

    def ends(what, env):
        key = (what, len(env))
        if key not in known:
            known[key], _ = run_program(tmp_path_factory.mktemp("bare") / "it", "bare", what, env)
        return known[key]

    return ends


def states(folder):
    """Return the states of the only run, in order, read from its journal."""
    (only,) = iter_runs(folder / ".seamark")
    found = []
    for journal in only.journals():
        with JournalReader(journal.path) as reader:
            ops = [decode_json(frame.payload) for frame in reader.frames() if frame.kind == OP]
        found += [op["state"] for op in ops if op["op"] == "state"]
    return found


@pytest.mark.parametrize("way", ["run", "logger"])
@pytest.mark.parametrize("what", ["SIGTERM", "SIGINT", "exception"])
def test_a_training_that_is_struck_ends_as_without_us(bare, tmp_path, way, what):
    """Same callbacks, checkpoints and exit code; the run says what happened."""
    ours, stderr = run_program(tmp_path / "ours", way, what, {})
    assert ours == bare(what, {}), stderr
    assert "strike" in ours[1]
    if (way, what) != ("run", "SIGINT"):  # Lightning catches Ctrl-C, and tells only loggers of it
        expected = "failed" if what == "exception" else "interrupted"
        assert states(tmp_path / "ours")[-1] == expected, stderr


@pytest.mark.parametrize("way", ["run", "logger"])
@pytest.mark.parametrize("what", ["SIGTERM", "SIGUSR1"])
def test_what_lightning_does_under_slurm_stays_on(bare, tmp_path, way, what):
    """It requeues at SIGUSR1 and (1.9) passes over SIGTERM, but only where it finds no handler."""
    ours, stderr = run_program(tmp_path / "ours", way, what, SLURM)
    assert ours == bare(what, SLURM), stderr
    assert "strike" in ours[1]
    if what == "SIGUSR1":
        assert any(name.startswith("hpc_ckpt") for name in ours[2])

"""Signals, exceptions and Ctrl-C end a training the same way with us and without us.

The same program runs twice: as it is, and with a run that was started before the Trainer (whose
handlers Lightning finds) or with a logger (which may install its own over Lightning's). What it
prints (every hook of a callback), its exit code and the checkpoints that it leaves must be equal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from seamark.journal.folder import iter_runs
from seamark.journal.reader import JournalReader, decode_json
from seamark.lightning import DeviceMemory, GradientNorms, LearningRates, StepTimes

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
    run = seamark.init_run(capture=dict(packages=False))
if way == "logger":
    from seamark.lightning import SeamarkLogger
    logger = SeamarkLogger(capture=dict(packages=False))

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


SLURM = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0") | {
    "SLURM_NTASKS": "1", "SLURM_JOB_NAME": "train", "SLURM_JOB_ID": "7",
    "SLURM_NODELIST": "localhost",
}  # fmt: skip


def compare(folder, ways, what, env=None):
    """Run the program without us and in these ways; return (exit code, lines, checkpoints)."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun, ended = {}, []
    for way in ("bare", *ways):
        place = folder / way
        place.mkdir()
        (place / "program.py").write_text(PROGRAM.format(tests=str(TESTS), host=HOST))
        command = [sys.executable, "program.py", way, what]
        begun[place] = subprocess.Popen(command, cwd=place, env=os.environ | (env or {}), **pipes)
    for place, process in begun.items():
        try:
            stdout, stderr = process.communicate(timeout=240)
        finally:
            process.kill()
        saved = sorted(path.name for path in place.rglob("*.ckpt"))
        ended.append(((process.returncode, stdout.splitlines(), saved), stderr))
    (bare, _), *others = ended
    assert "strike" in bare[1]
    for ours, stderr in others:
        assert ours == bare, stderr
    return bare


def states(folder):
    """Return the states of the only run, in order, read from its journal."""
    (only,) = iter_runs(folder / ".seamark")
    found = []
    for journal in only.journals():
        with JournalReader(journal.path) as reader:
            frames = [frame for frame in reader.frames() if frame.kind == OP]
            found += [(frame.t, decode_json(frame.payload)) for frame in frames]
    found.sort(key=lambda one: one[0])  # names of journals have no order
    return [op["state"] for _, op in found if op["op"] == "state"]


@pytest.mark.launches
@pytest.mark.parametrize(
    ("what", "ways", "state"),
    [
        ("SIGTERM", ["run", "logger"], "interrupted"),
        # Lightning catches Ctrl-C, and tells only loggers of it.
        pytest.param("SIGINT", ["logger"], "interrupted", marks=pytest.mark.thorough),
        pytest.param("exception", ["logger"], "failed", marks=pytest.mark.thorough),
    ],
)
def test_a_training_that_is_struck_ends_as_without_us(tmp_path, ways, what, state):
    """Same callbacks, checkpoints and exit code; the run says what happened."""
    compare(tmp_path, ways, what)
    assert {states(tmp_path / way)[-1] for way in ways} == {state}


@pytest.mark.launches
@pytest.mark.parametrize(
    ("what", "ways"),
    [
        ("SIGTERM", ["run"]),
        pytest.param("SIGUSR1", ["run", "logger"], marks=pytest.mark.thorough),
    ],
)
def test_what_lightning_does_under_slurm_stays_on(tmp_path, ways, what):
    """It requeues at SIGUSR1 and (1.9) passes over SIGTERM, but only where it finds no handler."""
    _, _, saved = compare(tmp_path, ways, what, SLURM)
    if what == "SIGUSR1":
        assert any(name.startswith("hpc_ckpt") for name in saved)


class TimeLimitError(Exception):
    """What a time limit raises."""


@pytest.fixture
def limit(monkeypatch):
    """Return a function that calls another until a time limit raises in it, and does so again.

    It returns where the limit struck that was swallowed, innermost first.
    """
    struck = []

    def end(number, frame):
        struck.append([f"{code.co_name}:{line}" for code, line in lines(frame)])
        raise TimeLimitError

    def again(unraisable):
        """Strike once more: Python drops what is raised in a destructor, whoever's it is."""
        struck.clear()
        signal.setitimer(signal.ITIMER_REAL, 1e-4)

    monkeypatch.setattr(sys, "unraisablehook", again)

    def swallowed(call, times):
        found = []
        for number in range(times):
            struck.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-5 * (number % 50))
                while not struck:
                    call()
                found += struck
            except TimeLimitError:
                pass
        return found

    before = signal.signal(signal.SIGALRM, end)
    yield swallowed
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def lines(frame):
    while frame is not None and frame.f_code.co_name != "swallowed":
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


def test_time_limits_go_through_what_records(limit, logger, host, trainer, tiny):
    """Not one of them is swallowed, wherever in our code it strikes."""
    saver = host.callbacks.ModelCheckpoint(save_last=True, save_top_k=-1)
    callbacks = [LearningRates(), GradientNorms(), StepTimes(), DeviceMemory()]
    made = trainer(logger=logger, callbacks=[saver, *callbacks], log_every_n_steps=1)
    made.fit(tiny)
    numbers = iter(range(10**9))
    calls = {
        "log_metrics": lambda: logger.log_metrics({"a": 1.0, "b": 2.0}, next(numbers)),
        "log_hyperparams": lambda: logger.log_hyperparams({"a": next(numbers), "b": {"c": [1]}}),
        "log_text": lambda: logger.experiment["text"].append("text"),
        "checkpoints": lambda: logger.after_save_checkpoint(saver),
        "finalize": lambda: logger.finalize("success"),
        "rates": lambda: callbacks[0].on_train_batch_start(made, tiny, None, 0),
        "memory": lambda: callbacks[3].on_train_batch_end(made, tiny),
        "state": lambda: made.callbacks[0].on_save_checkpoint(made, tiny, {}),
    }
    assert {name: limit(call, 50) for name, call in calls.items()} == {name: [] for name in calls}

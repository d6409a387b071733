"""``lightning`` and ``pytorch_lightning`` in one process: what is ours is at home in both."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = ["lightning.pytorch", "pytorch_lightning"]
ORDERS = [
    "lightning.pytorch",
    "pytorch_lightning,lightning.pytorch,seamark.lightning",
]
PROGRAM = """
import importlib, sys, warnings

warnings.simplefilter("ignore")
order, host = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, {tests!r})
for name in order.split(","):
    importlib.import_module(name)
module = importlib.import_module(host)
cli = importlib.import_module(host + ".cli")
import conftest

Tiny = conftest.module_class(module)


class Configured(Tiny):
    def __init__(self, width: int = 2):
        super().__init__(width)


made = cli.LightningCLI(Configured, save_config_callback=None)
kinds = [type(one).__name__ for one in (made.trainer.profiler, *made.trainer.callbacks)]
print("made", *kinds)
from seamark.lightning import StepTimes

quiet = {{"max_epochs": 1, "logger": False, "enable_progress_bar": False, "accelerator": "cpu"}}
module.Trainer(**quiet, enable_checkpointing=False, callbacks=StepTimes()).fit(made.model)
print("alone")
"""
CONFIGURATION = """
trainer:
  max_epochs: 1
  accelerator: cpu
  devices: 1
  log_every_n_steps: 1
  enable_progress_bar: false
  enable_model_summary: false
  logger: seamark.lightning.SeamarkLogger
  profiler:
    class_path: seamark.lightning.TimeProfiler
    init_args: {dirpath: reports, filename: times, extended: false}
  callbacks:
    - class_path: seamark.lightning.StepTimes
      init_args: {batch_size: 3}
    - class_path: seamark.lightning.GradientNorms
      init_args: {norm_type: .inf, per_parameter: true}
    - class_path: seamark.lightning.LearningRates
      init_args: {momentum: true}
    - seamark.lightning.DeviceMemory
    - seamark.lightning.ResumeCallback
"""
HERE = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0])]
CASES = [
    pytest.param(order, host, marks=[] if order.startswith(host) else pytest.mark.thorough)
    for order, host in itertools.product(ORDERS, HERE)
    if all(name in HERE or name.startswith("seamark") for name in order.split(","))
]

pytestmark = pytest.mark.launches


@pytest.mark.parametrize(("order", "host"), CASES)
def test_command_lines_of_either_take_all_of_ours(order, host):
    """Whatever was imported first; and a Trainer takes a callback without a list."""
    pytest.importorskip("jsonargparse")
    Path("program.py").write_text(PROGRAM.format(tests=str(Path(__file__).parent)))
    Path("config.yaml").write_text(CONFIGURATION)
    command = [sys.executable, "program.py", order, host, "fit", "--config", "config.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    made = next(line for line in done.stdout.splitlines() if line.startswith("made"))
    for name in ("TimeProfiler", "StepTimes", "GradientNorms", "LearningRates", "DeviceMemory"):
        assert made.split().count(name) == 1, made
    assert "ResumeCallback" in made.split(), made
    assert "alone" in done.stdout
    assert len(list(Path("reports").iterdir())) == 1
    (run,) = Path(".seamark/default").iterdir()
    journals = b"".join(journal.read_bytes() for journal in run.glob("journal/*"))
    for path in (b"profiling/step_time_s", b"training/grad_norm/layer/weight", b"lr-SGD-momentum"):
        assert path in journals

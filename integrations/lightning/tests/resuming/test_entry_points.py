"""Lightning finds the callback by itself: by the entry points of the installed package."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import importlib, pickle, sys, warnings
warnings.simplefilter("ignore")
host = importlib.import_module({host!r})

def trainer(**given):
    return host.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, **given
    )

def ours(trainer):
    return [one for one in trainer.callbacks if type(one).__name__ == "ResumeCallback"]

assert ours(trainer()) == []
assert "seamark.lightning" not in sys.modules

from seamark.lightning import ResumeCallback
(callback,) = ours(trainer())
assert isinstance(callback, host.callbacks.Callback)
assert isinstance(pickle.loads(pickle.dumps(callback)), host.callbacks.Callback)
assert len(ours(trainer(callbacks=[ResumeCallback(), ResumeCallback()]))) == 3
"""


def test_every_trainer_has_one_where_seamark_is_used(host):
    """And none where it is not; several do not disturb each other."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(host=host.__name__)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr

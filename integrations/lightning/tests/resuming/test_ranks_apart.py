"""Ranks that see different disks do what rank 0 does, whatever lies on their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from steady import attempts, program, runs, steps

pytestmark = pytest.mark.slow

PROGRAM = """
os.environ["SEAMARK_DIR"] = os.path.abspath("root-" + os.environ.get("LOCAL_RANK", "0"))
from seamark.errors import RunNotFoundError
ranks, resume, checkpoint = sys.argv[1:]
logger = SeamarkLogger(ranks=ranks, resume=resume)
callback = host.callbacks.ModelCheckpoint(save_last=True, monitor="val", save_top_k=2)
trainer = host.Trainer(
    strategy="ddp", devices=2, max_epochs=3 if checkpoint else 2, logger=logger,
    callbacks=[callback], **{sampler: False}, **quiet,
)
rank = os.environ.get("LOCAL_RANK", "0")
try:
    trainer.fit(tiny_class(host)(), ckpt_path=checkpoint or None)
except RunNotFoundError as error:
    open(f"refused-{rank}", "w").write(str(error))
    os._exit(3)
open(f"trained-{rank}", "w").write(logger.version)
trainer.strategy.barrier()
if trainer.is_global_zero:
    open("last", "w").write(callback.last_model_path)
"""


@pytest.fixture
def train(one_host):
    """Train on two ranks, each with a root of its own; returns the exit status."""

    def start(checkpoint="", ranks="zero", resume="auto"):
        Path("program.py").write_text(program(one_host, PROGRAM))
        with Path("output.txt").open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "program.py", ranks, resume, checkpoint],
                env={**os.environ, "XDG_CACHE_HOME": str(Path("cache").absolute())},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return process.wait(timeout=240)  # bounds a deadlock; it takes seconds
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    return start


@pytest.mark.parametrize(
    ("ranks", "resume"),
    [
        ("all", "must"),
        pytest.param("zero", "auto", marks=pytest.mark.thorough),
        pytest.param("zero", "must", marks=pytest.mark.thorough),
    ],
)
def test_ranks_without_a_root_in_common_resume(train, ranks, resume):
    """Only rank 0 sees the checkpoint's run; all go over to it, and none waits for another."""
    assert train(ranks=ranks) == 0, Path("output.txt").read_text()
    checkpoint = Path("last").read_text()
    assert train(checkpoint, ranks, resume) == 0, Path("output.txt").read_text()
    (name,) = runs("root-0")
    run = runs("root-0")[name]
    assert steps(run) == list(range(12))
    assert attempts(run) == [0, 1]
    assert {Path(f"trained-{rank}").read_text() for rank in (0, 1)} == {name}
    if ranks == "all":
        (other,) = runs("root-1").values()
        assert steps(other, "training/ranks/1/loss") == list(range(12))
        assert attempts(other) == [0, 1]


def test_all_ranks_refuse_or_none(train):
    """Rank 0 does not see the run, rank 1 would: with ``resume="must"`` nobody trains."""
    assert train() == 0, Path("output.txt").read_text()
    checkpoint = Path("last").read_text()
    Path("root-0").rename("elsewhere")
    moved = checkpoint.replace("root-0", "elsewhere")
    Path("trained-0").unlink()
    Path("trained-1").unlink()
    assert train(moved, resume="must") != 0
    assert Path("refused-0").read_text() == Path("refused-1").read_text()
    assert not list(Path().glob("trained-*"))

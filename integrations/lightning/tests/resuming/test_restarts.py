"""A job that torchrun or SLURM restarts goes on with its runs: real launchers, real trainers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from steady import attempts, program, runs, steps, value

pytestmark = pytest.mark.slow


@pytest.fixture
def host(one_host):
    """One package: what starts so many processes is proven with one of them."""
    return one_host


@pytest.fixture
def launch(host):
    """Run a program under a launcher, after HEAD; it has to succeed."""

    def start(body, *launcher, status=0, **environment):
        Path("program.py").write_text(program(host, body))
        done = subprocess.run(
            [sys.executable, *launcher, "program.py"],
            env={**os.environ, **environment, **OWN_STORE},
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == status, done.stderr[-4000:]
        return done

    return start


# Else Gloo finds the addresses of the workers that are gone in the store of the agent (torch 2.13).
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1")


FIT = """
first_start = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) == 0

def die(step):
    if step == 9 and first_start and int(os.environ["RANK"]) == {rank}:
        os.kill(os.getpid(), signal.SIGKILL)

model = tiny_class(host)()
model.at_step = die
loggers = [SeamarkLogger(project=name) for name in {projects}]
callback = host.callbacks.ModelCheckpoint(save_last=True, monitor="val")
trainer = host.Trainer(
    strategy="ddp", devices=2, max_epochs=6, logger=loggers, callbacks=[callback],
    **{{sampler: False}}, **quiet,
)
trainer.fit(model, ckpt_path="last")
"""


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.thorough), 1])
def test_ddp_under_torchrun(host, launch, rank):
    """Each logger finds its run, and its folder the last checkpoint: nothing has to be named."""
    body = FIT.format(rank=rank, projects=["one", "two"])
    launch(body, *TORCHRUN)
    found = runs()
    assert len(found) == 2
    for run in found.values():
        assert attempts(run) == [0, 1]
        assert steps(run) == list(range(24))
        assert steps(run, "training/val") == [3, 7, 11, 15, 19, 23]
        assert len(steps(run, attempt="all")) in (24, 25)
        assert value(run, "sys/state") == "completed"


REQUEUE = """
def preempt(step):
    if step == 9 and "SLURM_RESTART_COUNT" not in os.environ:
        os.kill(os.getpid(), signal.SIGUSR1)
    if step == 10 and "SLURM_RESTART_COUNT" not in os.environ:
        os.kill(os.getpid(), signal.{end})

model = tiny_class(host)()
model.at_step = preempt
logger = SeamarkLogger()
trainer = host.Trainer(devices=1, max_epochs=3, logger=logger, **quiet)
trainer.fit(model)
assert trainer.global_step == 12
"""


@pytest.mark.parametrize("end", [pytest.param("SIGKILL", marks=pytest.mark.thorough), "SIGTERM"])
@pytest.mark.parametrize("array", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_requeue_by_slurm(host, launch, end, array):
    """Lightning asks SLURM to requeue the job; the requeued one goes on with the suspended run."""
    if host.__version__.startswith("1."):
        end = "SIGKILL"  # 1.9 does not stop for SIGTERM
    tools = Path("tools").absolute()
    tools.mkdir()
    scontrol = tools / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tools}/calls\n')
    scontrol.chmod(0o755)
    job = {"SLURM_JOB_ID": "18", "SLURM_NTASKS": "1", "SLURM_JOB_NAME": "train"}
    job |= {"SLURM_NTASKS_PER_NODE": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    job |= {"SLURM_NODEID": "0", "PATH": f"{tools}:{os.environ['PATH']}"}
    if array:
        job |= {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4"}
    body = REQUEUE.format(end=end)
    launch(body, status=-9 if end == "SIGKILL" else 0, **job)
    assert (tools / "calls").read_text().split() == ["requeue", "17_4" if array else "18"]
    (run,) = runs().values()
    assert value(run, "sys/state") == "suspended"
    launch(body, **job, SLURM_RESTART_COUNT="1")
    (run,) = runs().values()
    assert attempts(run) == [0, 1]
    # The step in which the signal came is done again; 2.6 counts it twice, whatever the logger.
    assert steps(run)[:9] == list(range(9))
    assert len(set(steps(run))) == len(steps(run)) == 12
    assert value(run, "sys/state") == "completed"


RESUME = """
model = tiny_class(host)()
callback = host.callbacks.ModelCheckpoint(save_last=True, monitor="val", save_top_k=2)
logger = SeamarkLogger(ranks={ranks!r})
again = os.path.exists("last")
trainer = host.Trainer(
    strategy="ddp", devices=2, max_epochs=3 if again else 2, logger=logger, callbacks=[callback],
    **{{sampler: False}}, **quiet,
)
trainer.fit(model, ckpt_path=open("last").read() if again else None)
if again:
    assert len(callback.best_k_models) == 2
    assert len({{os.path.dirname(path) for path in callback.best_k_models}}) == 1
trainer.strategy.barrier()
if trainer.is_global_zero:
    open("last", "w").write(callback.last_model_path)
"""


@pytest.mark.parametrize("ranks", [pytest.param("zero", marks=pytest.mark.thorough), "all"])
def test_ranks_resume_alike(host, launch, ranks):
    """Each mints an id of its own; they come to one run, one folder, and one attempt."""
    body = RESUME.format(ranks=ranks)
    launch(body)
    launch(body)
    (run,) = runs().values()
    assert steps(run) == list(range(12))
    assert steps(run, "training/val") == [3, 7, 11]
    assert attempts(run) == sorted([0, 1] * (2 if ranks == "all" else 1))
    if ranks == "all":
        assert steps(run, "training/ranks/1/loss") == list(range(12))
    assert len(list(Path(".seamark").glob("*/*"))) == 1

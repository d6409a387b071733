"""What ``test_failures.py`` starts: a training on two ranks, in which rank 1 goes wrong.

python failing_ranks.py {killed,raises,hangs} <ranks> [spawned]
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events

from seamark.ignite import SeamarkLogger


def step(engine, how):
    """Wait for the other rank, as every step of a distributed training does."""
    if idist.get_rank() == 1 and engine.state.iteration == 4:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "raises":
            msg = "an odd batch"
            raise ValueError(msg)
        Path("hangs").touch()
        time.sleep(3600)
    return float(idist.all_reduce(torch.ones(1)))


def work(_local_rank, how, ranks):
    torch.set_num_threads(1)
    with SeamarkLogger(
        project="p", ranks=ranks, capture={"git": False, "packages": False}
    ) as logger:
        trainer = Engine(lambda engine, _batch: step(engine, how))
        logger.attach_output_handler(
            trainer, Events.ITERATION_COMPLETED, "train", output_transform=lambda it: {"sum": it}
        )
        trainer.run(range(10))


def main(how, ranks, *spawned):
    given = {}
    if spawned:
        group = (Path.cwd() / "process-group").as_uri()
        given = {"init_method": group, "nproc_per_node": 2, "start_method": "fork"}
    with idist.Parallel("gloo", **given) as parallel:
        parallel.run(work, how, ranks)


if __name__ == "__main__":
    main(*sys.argv[1:])

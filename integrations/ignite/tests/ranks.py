"""What ``test_processes.py`` starts: one training on two ranks, which Ignite spawns.

python ranks.py {inside,outside} <save_on_rank>
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events
from ignite.handlers import Checkpoint

from seamark.ignite import SeamarkLogger, SeamarkSaver

QUIET = {"capture_git": False, "capture_packages": False}


def work(rank, logger, save_on_rank, folder):
    """Train on one rank; the logger is handed in, or made here."""
    torch.set_num_threads(1)
    os.chdir(folder)
    if logger is None:
        logger = SeamarkLogger(project="p", root=folder / ".seamark", **QUIET)
    engine = Engine(lambda engine, _batch: float(engine.state.iteration + 100 * rank))
    logger.attach_output_handler(
        engine, Events.ITERATION_COMPLETED, "t",
        output_transform=lambda output: {"loss": output, "text": f"rank {rank}"},
    )  # fmt: skip
    net = torch.nn.Linear(1, 1)
    torch.nn.init.constant_(net.weight, rank)
    saver = SeamarkSaver(logger, save_on_rank=save_on_rank)
    handler = Checkpoint({"net": net}, saver, n_saved=1, save_on_rank=save_on_rank)
    engine.add_event_handler(Events.EPOCH_COMPLETED, handler)
    logger["parameters/rank"] = rank
    engine.run(range(2), max_epochs=2)
    idist.barrier()  # the test's own: what rank 1 saved is there when the processes end
    logger.close()


def main(where, save_on_rank):
    folder = Path.cwd()
    logger = None
    if where == "outside":
        logger = SeamarkLogger(project="p", root=folder / ".seamark", **QUIET)
        print(logger.id)  # noqa: T201 - for the test that started this
    # Ignite's own choice is always port 2222, which another test may be using.
    group = (folder / "process-group").as_uri()
    with idist.Parallel(
        "gloo", init_method=group, nproc_per_node=2, start_method="spawn"
    ) as parallel:
        parallel.run(work, logger, save_on_rank, folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

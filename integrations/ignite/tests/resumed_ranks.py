"""What ``test_processes.py`` starts twice: two ranks that record, and do not keep step.

python resumed_ranks.py {0,1}: which rank is the slower one, by an iteration. All is killed when it
comes to iteration 7, and goes on after the last checkpoint when it is started again.
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
from ignite.handlers import Checkpoint, DiskSaver

from seamark.ignite import SeamarkLogger

SAVED, BEGAN = Path("saved"), Path("began")


def work(_local_rank, slow):
    rank, restarted = idist.get_rank(), SAVED.is_dir()
    idist.barrier()  # before one of them makes the folder
    trainer = Engine(lambda _engine, batch: batch)
    logger = SeamarkLogger(project="p", ranks="all", capture={"git": False, "packages": False})
    kept = {"trainer": trainer, "logger": logger}

    def await_rank(number, iteration):
        while not (BEGAN / f"{number}-{iteration}").exists():
            time.sleep(0.01)

    @trainer.on(Events.ITERATION_STARTED)
    def keep_apart(engine):
        iteration = engine.state.iteration
        if restarted:
            return
        if rank == slow:
            await_rank(1 - slow, iteration + 1)
            if iteration == 7:
                os.killpg(0, signal.SIGKILL)
        (BEGAN / f"{rank}-{iteration}").touch()
        if rank != slow and iteration > 1:
            await_rank(slow, iteration - 1)

    logger.attach_output_handler(
        trainer, Events.ITERATION_COMPLETED, "before", output_transform=lambda loss: {"loss": loss}
    )
    checkpoint = Checkpoint(kept, DiskSaver(str(SAVED), require_empty=False), n_saved=None)
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=2), checkpoint)
    logger.attach_output_handler(
        trainer, Events.ITERATION_COMPLETED, "after", output_transform=lambda loss: {"loss": loss}
    )
    if restarted:
        newest = max(SAVED.iterdir(), key=lambda path: int(path.stem.rpartition("_")[2]))
        assert newest.stem.endswith("_6")
        Checkpoint.load_objects(kept, torch.load(newest, weights_only=True))
    trainer.run(torch.arange(1.0, 11.0), max_epochs=1, epoch_length=10)
    logger.close()


if __name__ == "__main__":
    BEGAN.mkdir(exist_ok=True)
    group = Path(f"group-{SAVED.is_dir()}").absolute().as_uri()
    with idist.Parallel(
        backend="gloo", init_method=group, nproc_per_node=2, start_method="spawn"
    ) as parallel:
        parallel.run(work, int(sys.argv[1]))

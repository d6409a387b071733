"""What ``test_processes.py`` starts: trainings on two ranks, with a recorder beside each logger.

python ranks.py {spawn,fork,torchrun,horovod,horovodrun}
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import ignite.distributed as idist
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import Checkpoint, ModelCheckpoint
from ignite.metrics import Loss
from torch.utils.data import TensorDataset

from seamark.ignite import (
    BasicTimeProfiler,
    HandlersTimeProfiler,
    SeamarkLogger,
    SeamarkSaver,
    WeightsHistHandler,
    WeightsScalarHandler,
    global_step_from_engine,
)

QUIET = {"capture": {"git": False, "packages": False}}


def new_logger(name, **given):
    return SeamarkLogger(project="p", name=name, **QUIET, **given)


def train(name, logger):
    """Train for two epochs of four iterations, and note beside what is to be found in the run."""
    rank, mse = idist.get_rank(), torch.nn.functional.mse_loss
    torch.manual_seed(0)
    points = torch.randn(32, 4)
    data = TensorDataset(points, points.sum(1, keepdim=True))
    loader = idist.auto_dataloader(data, batch_size=8, shuffle=False)
    net = idist.auto_model(torch.nn.Linear(4, 1))
    optimizer = idist.auto_optim(torch.optim.SGD(net.parameters(), lr=0.1))
    trainer = create_supervised_trainer(net, optimizer, mse)
    evaluator = create_supervised_evaluator(net, metrics={"loss": Loss(mse)})

    seen = []

    def note(path, step, value):
        seen.append((path, step, float(value)))

    def weights(engine):
        for path, parameter in net.named_parameters():
            norm = parameter.detach().norm()
            note("weights_norm/" + path.replace(".", "/"), engine.state.epoch, norm)

    def valued(engine):
        note("val/loss", trainer.state.epoch, engine.state.metrics["loss"])

    def rate(engine):
        note("lr/group_0", engine.state.iteration, optimizer.param_groups[0]["lr"])
        optimizer.param_groups[0]["lr"] *= 0.9  # after the logger, which was attached before

    logger["parameters"] = {"lr": 0.1, "rank": rank}
    logger["sys/tags"].add(f"rank {rank}")
    logger.attach_output_handler(
        trainer, Events.ITERATION_COMPLETED, "train",
        output_transform=lambda loss: {"loss": loss, "text": f"rank {rank}"},
    )  # fmt: skip
    logger.attach_opt_params_handler(trainer, Events.ITERATION_STARTED, optimizer)
    logger.attach_output_handler(
        evaluator, Events.COMPLETED, "val", "all",
        global_step_transform=global_step_from_engine(trainer),
    )  # fmt: skip
    logger.attach(trainer, WeightsScalarHandler(net), Events.EPOCH_COMPLETED)
    logger.attach(trainer, WeightsHistHandler(net), Events.EPOCH_COMPLETED)
    BasicTimeProfiler().attach(trainer, run=logger)
    HandlersTimeProfiler().attach(trainer, run=logger)

    trainer.add_event_handler(
        Events.ITERATION_COMPLETED,
        lambda engine: note("train/loss", engine.state.iteration, engine.state.output),
    )
    trainer.add_event_handler(Events.ITERATION_STARTED, rate)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, weights)
    evaluator.add_event_handler(Events.COMPLETED, valued)

    saved = Checkpoint({"net": net}, SeamarkSaver(logger), n_saved=1)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, saved)
    kept = ModelCheckpoint(f"kept-{name}", "m", n_saved=1, create_dir=True, require_empty=False)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, kept, {"net": net})
    logger.attach_checkpoint(trainer, kept, Events.EPOCH_COMPLETED)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader))

    trainer.run(loader, max_epochs=2)
    logger.close()
    found = {
        "id": logger.id,
        "seen": seen,
        "weight": float(next(iter(net.parameters())).detach()[0][0]),
    }
    Path(f"{name}-{rank}.json").write_text(json.dumps(found))


def work(_local_rank, outside, everyone, folder):
    """Train with loggers that were handed in or made before, and with one that is made here."""
    torch.set_num_threads(1)
    os.chdir(folder)
    train("outside", outside)
    train("inside", new_logger("inside"))
    train("everyone", everyone)


def main(launcher):
    folder = Path.cwd()
    given = {"backend": "horovod" if launcher.startswith("horovod") else "gloo"}
    if launcher in {"spawn", "fork"}:
        # Ignite's own choice is always port 2222, which another test may be using.
        group = (folder / "process-group").as_uri()
        given |= {"init_method": group, "nproc_per_node": 2, "start_method": launcher}
    if launcher == "horovod":
        given |= {"nproc_per_node": 2}
    outside, everyone = new_logger("outside"), new_logger("everyone", ranks="all")
    with idist.Parallel(**given) as parallel:
        parallel.run(work, outside, everyone, folder)


if __name__ == "__main__":
    main(sys.argv[1])

"""What ``test_processes.py`` starts: a training of eight steps on each process.

training.py [raises]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator

import seamark.accelerate  # noqa: F401 - makes the tracker known as "seamark"


def train(accelerator):
    """Take eight steps, each process with points of its own; return the mean loss of each step."""
    torch.manual_seed(accelerator.process_index)
    points, weight, losses = torch.randn(32, 4), torch.zeros(4, 1, requires_grad=True), []
    for step in range(8):
        loss = ((points @ weight - points.sum(1, keepdim=True)) ** 2).mean()
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():  # a class of torch.optim would import a compiler for some seconds
            weight -= 0.1 * accelerator.reduce(gradient, "mean")
        mean = accelerator.gather(loss.detach()).mean()
        accelerator.log({"train/loss": mean}, step=step)
        losses.append(mean.item())
    return losses


def main(*, raises):
    """Train with a tracker; raise before the end, if asked to."""
    torch.set_num_threads(1)
    accelerator = Accelerator(log_with="seamark", cpu=True)
    config = {"lr": 0.1, "rank": accelerator.process_index}
    named = {"seamark": {"tags": [f"rank {accelerator.process_index}"]}}
    accelerator.init_trackers("p", config=config, init_kwargs=named)
    losses = train(accelerator)
    Path(f"{accelerator.process_index}.json").write_text(json.dumps(losses))
    if raises:
        msg = "an odd batch"
        raise ValueError(msg)
    accelerator.end_training()


if __name__ == "__main__":
    main(raises="raises" in sys.argv)

"""What ``test_torch_ranks.py`` starts under torchrun: plain torch trainings, one run each.

torchrun ... torch_ranks.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import seamark

QUIET = {"capture": {"git": False, "packages": False}}


def wrapped(kind, net):
    if kind == "fully_shard":
        fully_shard(net)
        return net
    if kind == "fsdp":
        return FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    return DistributedDataParallel(net)


def train(kind, **given):
    """Train for five steps; nothing in it asks which rank this is."""
    seen = []
    with seamark.init_run("p", name=kind, tags=[kind], **QUIET, **given) as run:
        torch.manual_seed(0)
        net = wrapped(kind, torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        points = torch.randn(2, 8, 4)[dist.get_rank()]
        run["parameters"] = {"lr": 0.1, "rank": dist.get_rank()}
        for step in range(5):
            loss = (net(points) - points.sum(1, keepdim=True)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.log_metrics({"train/loss": loss}, step=step)
            run["train/text"].append(f"rank {dist.get_rank()}", step=step)
            seen.append([step, loss.item()])
        run["note"].upload(seamark.types.File.from_content(f"rank {dist.get_rank()}"))
    Path(f"{kind}-{dist.get_rank()}.json").write_text(json.dumps([run.id, seen]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for kind in ("ddp", "fsdp", "fully_shard"):
        train(kind)
    train("everyone", ranks="all")
    dist.destroy_process_group()

"""What the README's lines for Ignite are given: a trainer with a metric, an optimizer, batches."""

from __future__ import annotations

import torch
from ignite.engine import Engine
from ignite.metrics import RunningAverage

optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)
batches = range(200)
trainer = Engine(lambda engine, batch: 1 / (1 + batch))
RunningAverage(output_transform=float).attach(trainer, "loss")

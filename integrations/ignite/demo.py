"""The least that a person has to write: one line, and a name for the project.

python integrations/ignite/demo.py
"""

from __future__ import annotations

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Loss, RunningAverage
from torch.utils.data import DataLoader, TensorDataset

from seamark.ignite import setup_seamark_logging

torch.manual_seed(0)
model, loss = torch.nn.Linear(4, 1), torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points = torch.randn(64, 4)
data = DataLoader(TensorDataset(points, points.sum(1, keepdim=True)), batch_size=8)

trainer = create_supervised_trainer(model, optimizer, loss)
RunningAverage(output_transform=float).attach(trainer, "loss")
evaluator = create_supervised_evaluator(model, metrics={"loss": Loss(loss)})
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(data))

with setup_seamark_logging(
    trainer, optimizer, evaluator, log_every_iters=1, project="demo", name="ignite"
):
    trainer.run(data, max_epochs=3)

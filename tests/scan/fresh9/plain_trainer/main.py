"""A trainer as a plain class: one step of regression with meters."""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class TrainConfig:
    lr: float = 1e-3
    clip: float = 1.0
    weight_decay: float = 0.0


class Meter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value):
        self.total += value
        self.count += 1

    @property
    def mean(self):
        return self.total / max(self.count, 1)


class Trainer:
    def __init__(self, model, config):
        self.model = model
        self.config = config
        self.meters = defaultdict(Meter)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)

    def _loss(self, batch):
        inputs, target = batch
        return nn.functional.mse_loss(self.model(inputs), target)

    def _log(self, name, value):
        self.meters[name].update(value.item())

    def train_step(self, batch):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self._loss(batch)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self._log("loss", loss.detach())
        self._log("norm", norm)
        return loss.detach()


def make_model(width):
    return nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))


def build(device):
    trainer = Trainer(make_model(8).to(device), TrainConfig())
    batch = (torch.randn(16, 8, device=device), torch.randn(16, 1, device=device))
    return trainer.train_step, (batch,)

"""Whole training steps that cannot be replayed."""

import torch
import torch.nn.functional as F
from torch import nn


def network(device):
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)


def batch(device):
    return torch.randn(16, 8, device=device), torch.randn(16, 1, device=device)


class Trainer:
    """Forward, backward and update."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()  # guilty: adam_on_host GS802
        return loss.detach()


def build_adam_on_host(device):
    model = network(device)
    return Trainer(model, torch.optim.Adam(model.parameters(), lr=1e-2)).step, batch(device)


class ScheduledTrainer:
    """Plain SGD, which can be captured, with a learning rate that a scheduler changes on the host."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()  # guilty: scheduled_sgd GS702|GS802
        self.scheduler.step()  # guilty: scheduled_sgd GS702|GS802
        return loss.detach()


def build_scheduled_sgd(device):
    return ScheduledTrainer(network(device)).step, batch(device)


class AccumulatingTrainer:
    """Updates after every second batch."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.micro = 0
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.micro += 1  # guilty: accumulating GS702
        if self.micro % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
        return loss.detach()


def build_accumulating(device):
    return AccumulatingTrainer(network(device)).step, batch(device)


class CheckedTrainer:
    """Clips gradients and raises where they are not finite."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, error_if_nonfinite=True)  # guilty: checked_clip GS106
        self.optimizer.step()
        return loss.detach()


def build_checked_clip(device):
    return CheckedTrainer(network(device)).step, batch(device)


class ScaledTrainer:
    """Mixed precision with a gradient scaler inside the step."""

    def __init__(self, model, device):
        self.model, self.device = model, device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler(device.type)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # guilty: grad_scaler GS106|GS101
        self.scaler.update()
        return loss.detach()


def build_grad_scaler(device):
    return ScaledTrainer(network(device), device).step, batch(device)

"""Training steps: accumulation, schedules, scalers."""
import torch
from torch import nn
from torch.nn import functional as F
from graphsafe import Step


def _net(device):
    return nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3)).to(device)


def _batch(device):
    return torch.randn(16, 12, device=device), torch.randint(0, 3, (16,), device=device)


def _refresh(args, kwargs, k):
    args[0].normal_()
    args[1].random_(0, 3)


class Accumulating:
    def __init__(self, device, **zero):
        self.net = _net(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.zero = zero

    def micro(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        (loss / 8).backward()
        return loss.detach()

    def apply(self):
        self.optimizer.step()
        self.optimizer.zero_grad(**self.zero)


def build_accumulating(device):
    trainer = Accumulating(device)
    return Step(trainer.micro, _batch(device), refresh=_refresh, events={"apply": trainer.apply})


def build_accumulating_kept(device):
    trainer = Accumulating(device, set_to_none=False)
    return Step(trainer.micro, _batch(device), refresh=_refresh, events={"apply": trainer.apply})


def build_step_lr(device):
    net = _net(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=80, gamma=0.5)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    return Step(train, _batch(device), refresh=_refresh)


def build_tensor_lr(device):
    net = _net(device)
    rate = torch.tensor(1e-2, device=device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, capturable=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)

    def train(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(train, _batch(device), refresh=_refresh, events={"epoch": schedule.step})


class Phased:
    def __init__(self, device):
        self.net = _net(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)

    def train(self, x, y):
        loss = F.cross_entropy(self.net(x), y)
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def restart(self):
        self.optimizer.state.clear()


def build_phased(device):
    trainer = Phased(device)
    return Step(trainer.train, _batch(device), refresh=_refresh, events={"restart": trainer.restart})


def build_scaled(device):
    net = _net(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler(device.type, init_scale=256.0, growth_interval=20)

    def train(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return Step(train, _batch(device), refresh=_refresh)

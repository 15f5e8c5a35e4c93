"""Training with an EMA of the weights whose decay warms up with the number of updates."""
import copy

import torch
import torch.nn as nn

import graphsafe


class ModelEma:
    def __init__(self, model, decay=0.999):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay
        self.num_updates = 0

    @torch.no_grad()
    def update(self, model):
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(decay).add_(p, alpha=1 - decay)
        for e, b in zip(self.module.buffers(), model.buffers()):
            e.copy_(b)


def build(device):
    torch.manual_seed(16)
    model = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 3)).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, capturable=True)
    ema = ModelEma(model)
    x = torch.randn(16, 10, device=device)
    y = torch.randint(3, (16,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        ema.update(model)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(torch.randint(3, (16,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

"""EMA of weights as in timm / diffusers: the decay warms up with the number of updates, a Python integer."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class EMAModel:
    def __init__(self, model, max_decay=0.9999, inv_gamma=1.0, power=2 / 3):
        self.shadow = [p.detach().clone() for p in model.parameters()]
        self.max_decay, self.inv_gamma, self.power = max_decay, inv_gamma, power
        self.optimization_step = 0

    def get_decay(self):
        step = max(0, self.optimization_step - 1)
        if step <= 0:
            return 0.0
        return min(1 - (1 + step / self.inv_gamma) ** -self.power, self.max_decay)

    @torch.no_grad()
    def step(self, params):
        self.optimization_step += 1
        decay = self.get_decay()
        for s, p in zip(self.shadow, params):
            s.sub_((s - p) * (1 - decay))


def build(device, batch=4):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU(), nn.Conv2d(8, 3, 3, padding=1)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
    ema = EMAModel(model)
    x = torch.randn(batch, 3, 8, 8, device=device)
    noise = torch.randn_like(x)

    def step(x, noise):
        opt.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x + noise), noise)
        loss.backward()
        opt.step()
        ema.step(model.parameters())
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 3, 8, 8))
        args[1].copy_(torch.randn(batch, 3, 8, 8))

    return graphsafe.Step(step, (x, noise), refresh=refresh)

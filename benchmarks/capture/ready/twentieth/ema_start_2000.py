"""EMA with a start step: for the first 2000 updates the shadow copies the weights, then it averages (DDPM trainers)."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class EMA:
    def __init__(self, beta=0.995):
        self.beta = beta
        self.step = 0

    @torch.no_grad()
    def step_ema(self, ema_model, model, step_start_ema=2000):
        if self.step < step_start_ema:
            for e, p in zip(ema_model.parameters(), model.parameters()):
                e.copy_(p)
            self.step += 1
            return
        for e, p in zip(ema_model.parameters(), model.parameters()):
            e.mul_(self.beta).add_(p, alpha=1 - self.beta)
        self.step += 1


def build(device, batch=8):
    model = nn.Sequential(nn.Linear(8, 24), nn.SiLU(), nn.Linear(24, 8)).to(device)
    ema_model = copy.deepcopy(model).eval().requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, capturable=True)
    ema = EMA()
    x, noise = torch.randn(batch, 8, device=device), torch.randn(batch, 8, device=device)

    def step(x, noise):
        loss = F.mse_loss(model(x + noise), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.step_ema(ema_model, model)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 8))
        args[1].copy_(torch.randn(batch, 8))

    return graphsafe.Step(step, (x, noise), refresh=refresh)

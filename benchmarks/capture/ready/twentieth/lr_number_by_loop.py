"""SGD with momentum; the loop sets the learning rate of the parameter group between steps (nanoGPT style)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe

MAX_LR, MIN_LR, WARMUP, DECAY = 6e-2, 6e-3, 10, 150


def get_lr(it):
    if it < WARMUP:
        return MAX_LR * (it + 1) / (WARMUP + 1)
    if it > DECAY:
        return MIN_LR
    ratio = (it - WARMUP) / (DECAY - WARMUP)
    return MIN_LR + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (MAX_LR - MIN_LR)


def build(device, batch=8):
    model = nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 5)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=MAX_LR, momentum=0.9, nesterov=True)
    x = torch.randn(batch, 20, device=device)
    y = torch.randint(0, 5, (batch,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        for group in opt.param_groups:
            group["lr"] = get_lr(k)
        args[0].copy_(torch.randn(batch, 20))
        args[1].copy_(torch.randint(0, 5, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

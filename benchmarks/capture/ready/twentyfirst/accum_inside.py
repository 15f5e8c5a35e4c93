"""Gradient accumulation with all micro-batches in one captured step; SGD with Nesterov momentum."""
import torch
import torch.nn as nn

import graphsafe


def build(device, micro=4):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    x = torch.randn(micro, 8, 12, device=device)
    y = torch.randn(micro, 8, device=device)

    def train_step(x, y):
        opt.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for i in range(micro):
            loss = nn.functional.huber_loss(model(x[i]).squeeze(-1), y[i]) / micro
            loss.backward()
            total += loss.detach()
        opt.step()
        return total

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(micro, 8, 12))
        args[1].copy_(torch.randn(micro, 8))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)

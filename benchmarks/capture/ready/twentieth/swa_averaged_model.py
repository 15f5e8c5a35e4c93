"""Stochastic weight averaging with torch.optim.swa_utils, the update inside the step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel

import graphsafe


def build(device, batch=8):
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 4)).to(device)
    swa_model = AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = torch.randn(batch, 10, device=device)
    y = torch.randint(0, 4, (batch,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        swa_model.update_parameters(model)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 10))
        args[1].copy_(torch.randint(0, 4, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

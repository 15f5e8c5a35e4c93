"""Training with ReduceLROnPlateau, stepped by the validation loop between steps."""
import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

import graphsafe


def build(device):
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, capturable=True)
    plateau = ReduceLROnPlateau(opt, factor=0.3, patience=9)
    x = torch.randn(16, 10, device=device)
    y = torch.randint(0, 3, (16,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()  # LINE: the learning rate is a Python number
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(torch.randint(0, 3, (16,)))
        plateau.step(0.7)  # validation does not improve

    return graphsafe.Step(step, (x, y), refresh=refresh)

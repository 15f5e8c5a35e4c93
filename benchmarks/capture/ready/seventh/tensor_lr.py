"""Training with a learning rate in a tensor, which the scheduler fills between steps."""
import torch
from torch import nn

import graphsafe


def build(device):
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3)).to(device)
    rate = torch.tensor(3e-3, device=device)
    opt = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    x = torch.randn(16, 10, device=device)
    y = torch.randint(0, 3, (16,), device=device)
    seen = []

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(torch.randint(0, 3, (16,)))
        schedule.step()  # fills the tensor in place
        seen.append(k)

    return graphsafe.Step(step, (x, y), refresh=refresh)

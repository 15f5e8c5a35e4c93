"""EMA with torch.optim.swa_utils.AveragedModel, the counter on the device."""
import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import graphsafe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.GroupNorm(4, 32), nn.SiLU())
        self.out = nn.Linear(32, 4)

    def forward(self, x):
        return self.out(self.body(x))


def build(device):
    torch.manual_seed(1)
    model = Net().to(device)
    ema = AveragedModel(model, device=device, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    opt = torch.optim.NAdam(model.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(8, 12, device=device)
    y = torch.randint(4, (8,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        ema.update_parameters(model)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))
        args[1].copy_(torch.randint(4, (8,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

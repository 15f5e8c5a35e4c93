"""Training with torch's Muon, which keeps no step count."""
import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Tanh(), nn.Linear(16, 16, bias=False)).to(device)
    opt = torch.optim.Muon(net.parameters(), lr=1e-3)

    def train(x):
        opt.zero_grad(set_to_none=False)
        loss = (net(x) - x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(32, 16))

    return graphsafe.Step(train, (torch.randn(32, 16, device=device),), refresh=refresh)

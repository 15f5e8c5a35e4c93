"""A grad scaler whose growth interval is shortened late in training."""
import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Linear(8, 4).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(device.type, init_scale=256.0, growth_interval=1000)

    def train(x, y):
        opt.zero_grad(set_to_none=False)
        loss = (net(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach(), scaler._scale.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        if k == 80:  # past the unstable phase
            scaler.set_growth_interval(130)

    x, y = torch.randn(16, 8, device=device), torch.zeros(16, 4, device=device)
    return graphsafe.Step(train, (x, y), refresh=refresh)

"""A grad scaler around fused SGD: inf checks, skips and growth are on the device."""
import torch
from torch import nn

import graphsafe


def build(device):
    net = nn.Linear(8, 4).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=25)

    def train(x, y):
        opt.zero_grad(set_to_none=False)
        loss = (net(x) - y).square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach(), scaler._scale.clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        if k % 40 == 33:
            args[0][0, 0] = float("inf")  # an overflow, whose step is skipped

    return graphsafe.Step(train, (torch.randn(16, 8, device=device), torch.zeros(16, 4, device=device)), refresh=refresh)

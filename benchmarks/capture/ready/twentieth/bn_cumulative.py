"""BatchNorm with cumulative statistics (momentum=None) in a training forward."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 8, 5, padding=2)
        self.bn = nn.BatchNorm1d(8, momentum=None)
        self.out = nn.Conv1d(8, 4, 1)

    def forward(self, x):
        h = F.leaky_relu(self.bn(self.conv(x)), 0.1)
        return self.out(h)


def build(device, batch=4):
    model = Encoder().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    x = torch.randn(batch, 4, 20, device=device)

    def step(x):
        opt.zero_grad(set_to_none=True)
        recon = model(x)
        loss = (recon - x).abs().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 4, 20)))

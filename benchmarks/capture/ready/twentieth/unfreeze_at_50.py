"""Fine-tuning with gradual unfreezing: the loop sets requires_grad of the backbone after 50 steps."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        return self.head(self.backbone(x))


def build(device, batch=8):
    net = Net().to(device)
    net.backbone.requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x = torch.randn(batch, 12, device=device)
    y = torch.randint(0, 4, (batch,), device=device)
    seen = [0]

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        seen[0] += 1
        if seen[0] == 50:
            net.backbone.requires_grad_(True)
        args[0].copy_(torch.randn(batch, 12))
        args[1].copy_(torch.randint(0, 4, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

"""MultiStepLR with milestones at 100 and 200 iterations on SGD, stepped by the loop."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class ConvNet(nn.Module):
    def __init__(self, n=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.fc = nn.Linear(32, n)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def build(device, batch=16):
    model = ConvNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[100, 200], gamma=0.1)
    x = torch.randn(batch, 3, 24, 24, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        scheduler.step()
        args[0].copy_(torch.randn(batch, 3, 24, 24))
        args[1].copy_(torch.randint(0, 10, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

"""SGD with StepLR every 1000 iterations; the training loop calls scheduler.step() after each iteration."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.fc = nn.Linear(8 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.relu(self.c2(x))
        return self.fc(F.adaptive_avg_pool2d(x, 2).flatten(1))


def build(device, batch=8):
    model = LeNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000, gamma=0.1)
    x = torch.randn(batch, 1, 12, 12, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        scheduler.step()
        args[0].copy_(torch.randn(batch, 1, 12, 12))
        args[1].copy_(torch.randint(0, 10, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

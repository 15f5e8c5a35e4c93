"""A residual network in training: BatchNorm with running statistics, dropout, SGD."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(ch)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(h)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.Sequential(Residual(8), Residual(8))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.layers(self.stem(x))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.fc(self.drop(x))


def build(device):
    torch.manual_seed(3)
    model = Net().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(8, 3, 12, 12, device=device)
    labels = torch.randint(10, (8,), device=device)

    def train_step(images, labels):
        opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 3, 12, 12))
        args[1].copy_(torch.randint(10, (8,)))

    return graphsafe.Step(train_step, (images, labels), refresh=refresh)

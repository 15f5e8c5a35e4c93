"""A small ResNet training step: BatchNorm in training mode, label smoothing, SGD with momentum and weight decay."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Sequential()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.short(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, n=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.blocks = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, n)

    def forward(self, x):
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


def build(device, batch=4):
    model = ResNet().to(device).train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    opt = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4}, {"params": rest, "weight_decay": 0.0}], lr=0.1, momentum=0.9)
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)
    x = torch.randn(batch, 3, 16, 16, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        logits = model(x)
        loss = crit(logits, y)
        loss.backward()
        opt.step()
        correct = (logits.argmax(1) == y).sum()
        return loss.detach(), correct

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 3, 16, 16))
        args[1].copy_(torch.randint(0, 10, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

"""Mixed-precision training of a small convnet with SGD and GradScaler, as in the AMP recipe."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.conv2(x)).mean((2, 3))
        return self.fc(x)


class Trainer:
    def __init__(self, device):
        self.model = Net().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)

    def train_step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast(device_type="cuda", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


def build(device, batch=8):
    trainer = Trainer(device)
    x = torch.randn(batch, 3, 16, 16, device=device)
    y = torch.randint(0, 10, (batch,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 3, 16, 16))
        args[1].copy_(torch.randint(0, 10, (batch,)))

    return graphsafe.Step(trainer.train_step, (x, y), refresh=refresh)

"""SGD with a cosine schedule; the scheduler steps once per batch, as in the fine-tuning recipes."""
import math

import torch
import torch.nn as nn

import graphsafe


def cosine_with_warmup(warmup, total):
    def fn(step):
        if step < warmup:
            return (step + 1) / warmup
        t = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, t)))

    return fn


def build(device):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine_with_warmup(10, 2000))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    x = torch.randn(8, 20, device=device)
    y = torch.randint(5, (8,), device=device)

    def train_step(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 20))
        args[1].copy_(torch.randint(5, (8,)))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)

"""Whole-step mixed precision training, as in the AMP recipe: autocast, GradScaler, clipping, AdamW."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 64)
        self.norm = nn.LayerNorm(64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc2(F.gelu(self.norm(self.fc1(x))))


def build(device):
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, capturable=True)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
    x = torch.randn(16, 32, device=device)
    y = torch.randint(10, (16,), device=device)

    def train_step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16, cache_enabled=False):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 32))
        args[1].copy_(torch.randint(10, (16,)))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)

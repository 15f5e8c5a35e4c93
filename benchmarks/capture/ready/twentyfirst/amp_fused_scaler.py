"""Mixed precision with the fused optimizer, which takes the scale and found_inf on the device."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class MLP(nn.Module):
    def __init__(self, din=32, dim=64, out=10):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(din, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, out))

    def forward(self, x):
        return self.net(x)


def build(device):
    torch.manual_seed(0)
    model = MLP().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=50)
    x = torch.randn(16, 32, device=device)
    y = torch.randint(10, (16,), device=device)

    def train_step(x, y):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16, cache_enabled=False):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 32))
        args[1].copy_(torch.randint(10, (16,)))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)

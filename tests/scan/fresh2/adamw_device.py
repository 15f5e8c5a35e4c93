"""AdamW with every number that changes kept on the device."""
import math

import torch
from torch import nn


class CosineOnDevice:
    """The learning rate is looked up in a table by a device counter."""

    def __init__(self, peak, warmup, total, device):
        values = []
        for t in range(total):
            if t < warmup:
                values.append(peak * (t + 1) / warmup)
            else:
                values.append(0.5 * peak * (1 + math.cos(math.pi * (t - warmup) / (total - warmup))))
        self.table = torch.tensor(values, device=device)
        self.last = total - 1

    def __call__(self, count):
        return self.table.gather(0, count.clamp(max=self.last).long().view(1))[0]


class AdamW:
    def __init__(self, groups, schedule, device, betas=(0.9, 0.999), eps=1e-8, max_norm=1.0):
        self.groups = [dict(g, params=list(g["params"])) for g in groups]
        self.schedule = schedule
        self.betas, self.eps, self.max_norm = betas, eps, max_norm
        self.count = torch.zeros((), device=device)
        self.m, self.v = {}, {}
        for p in self.everything():
            self.m[p] = torch.zeros_like(p)
            self.v[p] = torch.zeros_like(p)

    def everything(self):
        for group in self.groups:
            yield from group["params"]

    def describe(self):
        sizes = sorted((p.numel() for p in self.everything()), reverse=True)
        return f"{sum(sizes)} parameters, step {int(self.count.item())}"

    @torch.no_grad()
    def step(self):
        params = list(self.everything())
        norms = torch._foreach_norm([p.grad for p in params])
        norm = torch.linalg.vector_norm(torch.stack(norms))
        scale = (self.max_norm / (norm + 1e-6)).clamp(max=1.0)
        lr = self.schedule(self.count)
        self.count += 1
        b1, b2 = self.betas
        c1 = 1 - torch.pow(b1, self.count)
        c2 = 1 - torch.pow(b2, self.count)
        for group in self.groups:
            for p in group["params"]:
                g = p.grad * scale
                m = self.m[p].lerp_(g, 1 - b1)
                v = self.v[p].mul_(b2).addcmul_(g, g, value=1 - b2)
                p.mul_(1 - lr * group["decay"])
                p.sub_(lr * (m / c1) / ((v / c2).sqrt() + self.eps))
        return norm


class Task(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 40), nn.SiLU(), nn.Linear(40, 3))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.net(x), y)


def build(device):
    torch.manual_seed(0)
    task = Task().to(device)
    named = list(task.named_parameters())
    groups = [
        {"params": [p for n, p in named if n.endswith("weight")], "decay": 0.1},
        {"params": [p for n, p in named if n.endswith("bias")], "decay": 0.0},
    ]
    opt = AdamW(groups, CosineOnDevice(1e-2, 10, 400, device), device)

    def train_step(x, y):
        for p in opt.everything():
            p.grad = None
        loss = task(x, y)
        loss.backward()
        norm = opt.step()
        return loss.detach(), norm

    x = torch.randn(48, 12, device=device)
    return train_step, (x, x[:, :3].sin())

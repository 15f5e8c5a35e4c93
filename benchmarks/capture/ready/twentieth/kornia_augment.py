"""Per-sample random flip, affine and colour jitter on the device, then SimCLR's NT-Xent loss."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def augment(x):
    b = x.shape[0]
    flip = torch.rand(b, 1, 1, 1, device=x.device) < 0.5
    x = torch.where(flip, x.flip(-1), x)
    angle = (torch.rand(b, device=x.device) - 0.5) * (math.pi / 6)
    scale = 0.8 + 0.4 * torch.rand(b, device=x.device)
    shift = (torch.rand(b, 2, device=x.device) - 0.5) * 0.2
    c, s = angle.cos() * scale, angle.sin() * scale
    theta = torch.stack([torch.stack([c, -s, shift[:, 0]], -1), torch.stack([s, c, shift[:, 1]], -1)], 1)
    grid = F.affine_grid(theta, x.shape, align_corners=False)
    x = F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)
    gain = 1 + 0.4 * (torch.rand(b, 3, 1, 1, device=x.device) - 0.5)
    return (x * gain).clamp(-3, 3)


def nt_xent(a, b, t=0.5):
    z = F.normalize(torch.cat([a, b]), dim=1)
    n = a.shape[0]
    sim = z @ z.T / t
    sim.fill_diagonal_(float("-inf"))
    target = torch.cat([torch.arange(n, 2 * n, device=z.device), torch.arange(n, device=z.device)])
    return F.cross_entropy(sim, target)


def build(device, batch=6):
    enc = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 8),
    ).to(device)
    opt = torch.optim.SGD(enc.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    x = torch.randn(batch, 3, 12, 12, device=device)

    def step(x):
        with torch.no_grad():
            v1, v2 = augment(x), augment(x)
        opt.zero_grad(set_to_none=True)
        loss = nt_xent(enc(v1), enc(v2))
        loss.backward()
        opt.step()
        return loss.detach()

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 3, 12, 12)))

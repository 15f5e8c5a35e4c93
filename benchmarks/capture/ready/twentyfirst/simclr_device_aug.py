"""SimCLR with augmentation on the device: per-sample flips, shifts, colour, noise; NT-Xent loss; LARS-like step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class DeviceAugment(nn.Module):
    def __init__(self, size, shift=3):
        super().__init__()
        self.size, self.shift = size, shift
        self.register_buffer("grid", torch.arange(size), persistent=False)

    def forward(self, x):
        b, c, h, w = x.shape
        flip = torch.rand(b, 1, 1, 1, device=x.device) < 0.5
        x = torch.where(flip, x.flip(-1), x)
        padded = F.pad(x, (self.shift,) * 4, mode="replicate")
        dy = torch.randint(0, 2 * self.shift + 1, (b, 1), device=x.device)
        dx = torch.randint(0, 2 * self.shift + 1, (b, 1), device=x.device)
        rows = (self.grid + dy)[:, None, :, None].expand(b, c, h, w + 2 * self.shift)
        x = padded.gather(2, rows)
        cols = (self.grid + dx)[:, None, None, :].expand(b, c, h, w)
        x = x.gather(3, cols)
        gain = 1 + 0.4 * (torch.rand(b, c, 1, 1, device=x.device) - 0.5)
        return x * gain + 0.05 * torch.randn_like(x)


def nt_xent(a, b, t=0.5):
    z = F.normalize(torch.cat([a, b]), dim=-1)
    n = a.shape[0]
    sim = z @ z.t() / t
    eye = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    sim = sim.masked_fill(eye, float("-inf"))
    target = (torch.arange(2 * n, device=z.device) + n) % (2 * n)
    return F.cross_entropy(sim, target)


def build(device, size=12, batch=6):
    torch.manual_seed(11)
    aug = DeviceAugment(size).to(device)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 36, 16)
    ).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    x = torch.rand(batch, 3, size, size, device=device)

    def train_step(x):
        loss = nt_xent(net(aug(x)), net(aug(x)))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        for p in net.parameters():
            trust = p.detach().norm() / (p.grad.norm() + 1e-6)
            p.grad.mul_(trust.clamp(1e-3, 1.0))
        opt.step()
        return loss.detach()

    return graphsafe.Step(train_step, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.rand(batch, 3, size, size)))

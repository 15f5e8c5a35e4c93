"""More steps with random numbers."""
import torch
import torch.nn.functional as F
from torch import nn


class SharedMask(nn.Module):
    """Two branches see the same dropout mask."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        devices = [x.device] if x.is_cuda else []
        with torch.random.fork_rng(devices):
            left = F.dropout(self.a(x), 0.5)
        right = F.dropout(self.b(x), 0.5)
        return left, right


class SharedMaskOnce(SharedMask):
    def forward(self, x):
        mask = F.dropout(torch.ones_like(x), 0.5)
        return self.a(x) * mask, self.b(x) * mask


class Annealed(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.p = nn.Linear(8, 8), 0.9

    def forward(self, x):
        self.p = max(self.p - 0.01, 0.1)
        return F.dropout(self.fc(x), self.p)


class Shift:
    def __init__(self):
        self.gen = torch.Generator().manual_seed(2)

    def __call__(self, img):
        dx = int(torch.randint(0, 4, (1,), generator=self.gen))
        return img.roll(dx, -1)


class DeviceShift:
    def __init__(self, device, n=16):
        self.at = torch.arange(n, device=device)

    def __call__(self, img):
        dx = torch.randint(0, 4, (1,), device=img.device)
        return img.index_select(-1, (self.at - dx).remainder(img.shape[-1]))


class Metropolis:
    def __init__(self, device):
        self.x = torch.zeros(64, device=device)

    def __call__(self, potential):
        new = self.x + 0.3 * torch.randn_like(self.x)
        gain = potential * (self.x.square() - new.square())
        accept = torch.rand_like(self.x).log() < gain
        self.x.copy_(torch.where(accept, new, self.x))
        return self.x.clone()


class Evolution:
    def __init__(self, device):
        self.theta = torch.zeros(8, device=device)

    def __call__(self, target):
        eps = torch.randn(32, 8, device=target.device)
        score = -(self.theta + 0.1 * eps - target).square().sum(-1)
        rank = score.argsort().argsort().float() / 31 - 0.5
        self.theta.add_((rank[:, None] * eps).mean(0), alpha=0.5)
        return self.theta.clone()


class Rrelu(nn.Module):
    def forward(self, x):
        y = F.rrelu(x, training=True)
        return F.alpha_dropout(y, 0.1, training=True)


def build_shared_mask(device):
    return SharedMask().to(device), (torch.randn(4, 8, device=device),)


def build_shared_mask_once(device):
    return SharedMaskOnce().to(device), (torch.randn(4, 8, device=device),)


def build_annealed_dropout(device):
    return Annealed().to(device), (torch.randn(16, 8, device=device),)


def build_random_shift(device):
    return Shift(), (torch.randn(2, 16, device=device),)


def build_device_shift(device):
    return DeviceShift(device), (torch.randn(2, 16, device=device),)


def build_metropolis(device):
    return Metropolis(device), (torch.rand(64, device=device),)


def build_evolution(device):
    return Evolution(device), (torch.randn(8, device=device),)


def build_rrelu(device):
    return Rrelu(), (torch.randn(4, 8, device=device),)

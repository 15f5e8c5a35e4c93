"""Steps that draw random numbers."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class NoisyNet(nn.Module):
    def __init__(self, device, dim=16):
        super().__init__()
        self.fc = nn.Linear(dim, dim)
        self.gen = torch.Generator(device)
        self.gen.manual_seed(3)

    def forward(self, x):
        eps = torch.rand(x.shape, device=x.device, generator=self.gen)
        return self.fc(x + 0.1 * eps)


class CpuNoise:
    def __init__(self):
        self.gen = torch.Generator().manual_seed(5)

    def __call__(self, x):
        z = torch.randn(x.shape, generator=self.gen).to(x.device)
        return x + z


class Jitter:
    def __call__(self, img):
        b = np.random.uniform(0.8, 1.2)
        return (img * b).clamp(0, 1)


class Reproducible:
    def __init__(self):
        self.seed = 100

    def __call__(self, x):
        self.seed += 1
        torch.manual_seed(self.seed)
        return x + torch.rand_like(x)


class FixedPattern:
    def __call__(self, x):
        torch.manual_seed(1234)
        return x * (torch.rand_like(x) > 0.5)


def shuffled(x):
    return x[torch.randperm(x.shape[0])]


class MixUp:
    def __init__(self, alpha=0.4):
        self.rng = np.random.RandomState(0)
        self.alpha = alpha

    def __call__(self, x, y):
        lam = self.rng.beta(self.alpha, self.alpha)
        return lam * x + (1 - lam) * x.flip(0), lam * y + (1 - lam) * y.flip(0)


class DropNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.b(F.dropout(F.relu(self.a(x)), 0.3, self.training))


def gumbel_sample(logits, temperature=0.8):
    u = torch.empty_like(logits).exponential_()
    return (torch.softmax(logits / temperature, -1) / u).argmax(-1)


class DevicePermute:
    def __call__(self, x):
        return x.gather(0, torch.rand_like(x).argsort(0))


class Langevin:
    def __init__(self, device):
        self.pos = torch.zeros(32, device=device)

    def step(self, force, dt=0.01):
        self.pos.add_(force, alpha=dt).add_(torch.randn_like(self.pos), alpha=dt**0.5)
        return self.pos.clone()


class Bernoulli(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.w = nn.Parameter(torch.randn(dim, dim) / 3)

    @torch.no_grad()
    def forward(self, v):
        h = torch.bernoulli(torch.sigmoid(v @ self.w))
        return torch.bernoulli(torch.sigmoid(h @ self.w.t()))


def build_noisy_net(device):
    return NoisyNet(device).to(device), (torch.randn(4, 16, device=device),)


def build_cpu_noise(device):
    return CpuNoise(), (torch.randn(4, 16, device=device),)


def build_jitter(device):
    return Jitter(), (torch.rand(4, 16, device=device),)


def build_reproducible(device):
    return Reproducible(), (torch.rand(4, 16, device=device),)


def build_fixed_pattern(device):
    return FixedPattern(), (torch.rand(4, 16, device=device),)


def build_shuffled(device):
    return shuffled, (torch.rand(8, 4, device=device),)


def build_mix_up(device):
    return MixUp(), (torch.rand(8, 4, device=device), torch.rand(8, 3, device=device))


def build_drop_net(device):
    return DropNet().to(device), (torch.randn(4, 16, device=device),)


def build_gumbel(device):
    return gumbel_sample, (torch.randn(4, 32, device=device),)


def build_device_permute(device):
    return DevicePermute(), (torch.randn(8, 4, device=device),)


def build_langevin(device):
    return Langevin(device).step, (torch.randn(32, device=device),)


def build_bernoulli(device):
    return Bernoulli().to(device), (torch.randint(0, 2, (4, 12), device=device).float(),)

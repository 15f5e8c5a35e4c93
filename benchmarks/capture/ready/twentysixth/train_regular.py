"""Regularisers and helpers around a training step."""
import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint
from graphsafe import Step


def _refresh(args, kwargs, k):
    for value in args:
        value.normal_()


class Depth(nn.Module):
    def __init__(self, dim, depth, drop):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        self.drop = drop

    def forward(self, x):
        for block in self.blocks:
            if self.training and random.random() < self.drop:
                continue
            x = x + block(x)
        return x


def build_layer_drop(device):
    model = Depth(16, 4, 0.02).to(device).requires_grad_(False)
    return Step(model, (torch.randn(8, 16, device=device),), refresh=_refresh)


class Quantised(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.register_buffer("range", torch.ones(()))

    def forward(self, x):
        y = self.linear(x)
        return (y / self.range).clamp(-1, 1) * self.range


class Calibration:
    def __init__(self, module, calls):
        self.module, self.left = module, calls
        self.handle = module.linear.register_forward_hook(self.observe)

    def observe(self, linear, inputs, output):
        self.module.range.lerp_(output.abs().amax(), 0.1)
        self.left -= 1
        if self.left == 0:
            self.handle.remove()


def build_calibrated(device):
    model = Quantised(16).to(device).requires_grad_(False)
    Calibration(model, 60)
    return Step(model, (torch.randn(8, 16, device=device),), refresh=_refresh)


class Reversed(torch.autograd.Function):
    seen = 0

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        Reversed.seen += 1
        return grad * (-0.1 * (1 + Reversed.seen // 64))


def build_adversary(device):
    features, domain = nn.Linear(12, 8, device=device), nn.Linear(8, 2, device=device)
    optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.1)

    def train(x):
        optimizer.zero_grad(set_to_none=True)
        loss = F.log_softmax(domain(Reversed.apply(features(x).tanh())), -1)[:, 0].mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(train, (torch.randn(16, 12, device=device),), refresh=_refresh)


def build_critic(device):
    critic = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(12, 24, device=device)),
        nn.LeakyReLU(0.2),
        parametrizations.spectral_norm(nn.Linear(24, 1, device=device)),
    )
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)

    def train(real, fake):
        optimizer.zero_grad(set_to_none=True)
        loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake)).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    args = torch.randn(16, 12, device=device), torch.randn(16, 12, device=device)
    return Step(train, args, refresh=_refresh)


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.relu()
        ctx.save_for_backward(y)
        return y * y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return 2 * y * grad


def build_checkpointed(device):
    blocks = nn.ModuleList(nn.Linear(16, 16, device=device) for _ in range(3))
    optimizer = torch.optim.AdamW(blocks.parameters(), lr=1e-3, capturable=True)

    def block(layer, x):
        return x + Squared.apply(layer(x))

    def train(x):
        optimizer.zero_grad(set_to_none=True)
        h = x
        for layer in blocks:
            h = checkpoint(block, layer, h, use_reentrant=False, preserve_rng_state=False)
        loss = h.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Step(train, (torch.randn(8, 16, device=device),), refresh=_refresh)


def build_averaged(device):
    net = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    shadow = [p.detach().clone() for p in net.parameters()]
    count, most = torch.zeros((), device=device), torch.full((), 0.9, device=device)

    def train(x):
        optimizer.zero_grad(set_to_none=True)
        loss = (net(x) - x[:, :1]).square().mean()
        loss.backward()
        optimizer.step()
        count.add_(1)
        decay = torch.minimum(most, (1 + count) / (10 + count))
        for mean, p in zip(shadow, net.parameters()):
            mean.mul_(decay).add_(p.detach() * (1 - decay))
        return loss.detach(), shadow[0].sum()

    return Step(train, (torch.randn(16, 12, device=device),), refresh=_refresh)

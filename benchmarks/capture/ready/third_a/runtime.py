"""Shared pieces of a model runtime: workspaces, precision, random streams, validation."""
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

_POOL = {}


def workspace(rows, cols, device):
    key = device.type, device.index, cols
    if key not in _POOL or _POOL[key].shape[0] < rows:
        _POOL[key] = torch.zeros(rows, cols, device=device)
    return _POOL[key]


def build_pooled_attention(device, batch=4):
    query = torch.randn(8, device=device)

    def step(x):
        rows = workspace(batch, 8, device)
        rows[:batch].copy_(torch.tanh(x))
        return (torch.softmax(rows @ query, 0)[:, None] * rows).sum(0)

    return step, (torch.randn(batch, 8, device=device),)


def build_pooled_projection(device, batch=4):
    weight = torch.randn(10, 10, device=device)

    def step(x):
        rows = workspace(batch, 10, device)[:batch]
        torch.mm(x, weight, out=rows)
        return F.layer_norm(rows, (10,)), rows.sum(0)

    return step, (torch.randn(batch, 10, device=device),)


class FourBitLinear(torch.nn.Module):
    """Weights and activations on a grid of 15 levels."""

    def __init__(self, i, o):
        super().__init__()
        weight = torch.randn(o, i)
        self.register_buffer("weight_scale", weight.abs().amax(1, keepdim=True) / 7)
        self.register_buffer("levels", (weight / self.weight_scale).round().clamp(-7, 7))
        self.act_scale = None

    def forward(self, x):
        if self.act_scale is None:
            self.act_scale = x.abs().amax(-1, keepdim=True) / 7
        q = (x / self.act_scale).round().clamp(-7, 7)
        return (q @ self.levels.t()) * self.act_scale * self.weight_scale.t()


def build_four_bit_linear(device):
    return FourBitLinear(16, 8).to(device), (torch.randn(5, 16, device=device),)


class DriftMonitor:
    def __init__(self, burn_in=3, rate=0.1):
        self.burn_in, self.rate = burn_in, rate
        self.calls, self.mean = 0, None

    @torch.no_grad()
    def __call__(self, x):
        self.calls += 1
        if self.calls <= self.burn_in:
            return x - x.mean(0)
        if self.mean is None:
            self.mean = torch.zeros(x.shape[1], device=x.device)
        self.mean.lerp_(x.mean(0), self.rate)
        return x - self.mean


def build_drift_monitor(device):
    return DriftMonitor(), (torch.randn(6, 12, device=device) + 2.0,)


class ReplayableNoise:
    """Noise that can be reproduced on any machine from a numpy seed."""

    def __init__(self, shape, seed, device):
        self.rng = np.random.default_rng(seed)
        self.host = torch.empty(shape, pin_memory=device.type == "cuda")
        self.noise = torch.empty(shape, device=device)

    def draw(self):
        self.rng.standard_normal(out=self.host.numpy(), dtype=np.float32)
        self.noise.copy_(self.host, non_blocking=True)
        return self.noise


def build_parameter_noise(device):
    weight, source = torch.randn(12, 12, device=device), ReplayableNoise((12, 12), 4, device)

    def step(x):
        return torch.tanh(x @ (weight + 0.1 * source.draw()))

    return step, (torch.randn(5, 12, device=device),)


class RandomStream:
    """Keeps the draws of one consumer apart from everybody else's."""

    def __init__(self, device):
        self.device, self.inner, self.outer = device, None, None

    def get(self):
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()

    def put(self, state):
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)

    def __enter__(self):
        self.outer = self.get()
        if self.inner is not None:
            self.put(self.inner)

    def __exit__(self, *error):
        self.inner = self.get()
        self.put(self.outer)


def build_private_dropout(device):
    stream, net = RandomStream(device), torch.nn.Linear(10, 10).to(device).requires_grad_(False)

    def step(x):
        with stream:
            hidden = F.dropout(net(x), 0.3)
        return hidden + 0.1 * torch.randn_like(hidden)

    return step, (torch.randn(6, 10, device=device),)


class DropoutBlock(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.up, self.down = torch.nn.Linear(dim, 2 * dim), torch.nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.dropout(F.gelu(self.up(x)), 0.2, self.training))


def build_recomputed_dropout(device):
    blocks = torch.nn.ModuleList(DropoutBlock(8) for _ in range(2)).to(device).train()
    opt = torch.optim.SGD(blocks.parameters(), lr=0.05)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        h = x
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=False)
        loss = F.mse_loss(h, y)
        loss.backward()
        opt.step()
        return loss.detach(), blocks[0].up.weight.detach().sum(0)

    return step, (torch.randn(7, 8, device=device), torch.randn(7, 8, device=device))


def build_scaled_training(device):
    on_gpu = device.type == "cuda"
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=0.01, fused=True, capturable=on_gpu)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=40)

    def step(x, y):
        opt.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.float16 if on_gpu else torch.bfloat16):
            out = net(x)
        loss = F.mse_loss(out.float(), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        return loss.detach(), net[0].weight.detach().sum(0)

    return step, (torch.randn(16, 8, device=device), torch.randn(16, 2, device=device))


def build_tied_autocast(device):
    embed = torch.nn.Parameter(torch.randn(16, 12, device=device) * 0.3)

    def step(x, target):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = torch.tanh(x @ embed.t()) @ embed
        loss = F.mse_loss(logits.float(), target)
        (grad,) = torch.autograd.grad(loss, embed)
        with torch.no_grad():
            embed.sub_(grad, alpha=0.5)
        return loss.detach(), embed.detach().norm()

    return step, (torch.randn(9, 12, device=device), torch.randn(9, 12, device=device))


def build_checked_bag(device):
    table = torch.randn(30, 6, device=device)

    def step(ids, weights, counts):
        if (counts < 0).any() or counts.dtype != np.int32:
            raise ValueError("counts must be non-negative int32")
        rows = table.index_select(0, ids.flatten()).view(*ids.shape, -1)
        return torch.einsum("bk,bkd->bd", weights, rows)

    ids = torch.randint(0, 30, (4, 5), device=device)
    return step, (ids, torch.rand(4, 5, device=device), np.array([5, 2, 0, 3], dtype=np.int32))

"""Diffusion samplers, expert layers, adapters and quantised layers."""
import contextlib
import contextvars
from collections import deque

import numpy as np
import torch
from torch import nn

import graphsafe


def pinned(t, device):
    return t.pin_memory() if device.type == "cuda" else t


def noise(shape, k):
    return torch.randn(shape, generator=torch.Generator().manual_seed(101 * k + 11))


def build_guided_step(device):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 8)).to(device).requires_grad_(False)

    def step(x, cond, *, sigma, guidance):
        batch = torch.cat([torch.cat([x, cond], 1), torch.cat([x, torch.zeros_like(cond)], 1)])
        hinted, plain = net(batch).chunk(2)
        return x - sigma * (plain + guidance * (hinted - plain))

    args = (torch.randn(3, 8, device=device), torch.randn(3, 4, device=device))
    return graphsafe.Step(step, args, {"sigma": torch.full((3, 1), 0.8, device=device), "guidance": torch.tensor(5.0)})


def build_checkpoint_swap(device):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device).requires_grad_(False)
    shapes = {name: p.shape for name, p in model.state_dict().items()}
    saved = [{n: noise(s, 10 * i + j).to(device) * 0.3 for j, (n, s) in enumerate(shapes.items())} for i in range(3)]

    def refresh(args, kwargs, k):
        args[0].copy_(noise((5, 8), 500 + k))
        if k % 10 == 0:
            model.load_state_dict(saved[k // 10 % 3], assign=True)

    return graphsafe.Step(model, (torch.randn(5, 8, device=device),), {}, refresh=refresh)


class CapacityRouter:
    def __init__(self, device, experts=4, dim=8):
        self.gate = torch.randn(dim, experts, device=device)
        self.experts = torch.randn(experts, dim, dim, device=device) * 0.4
        self.ids = torch.arange(experts, device=device)
        self.load = pinned(torch.full((experts,), 8.0), device)
        self.load_view = self.load.numpy()

    def __call__(self, tokens):
        capacity = int(0.75 * self.load_view.max())
        chosen = (tokens @ self.gate).argmax(dim=-1)
        hot = (chosen[:, None] == self.ids).float()
        place = (hot.cumsum(0) * hot).sum(-1)
        kept = (place <= capacity).float()[:, None]
        self.load.copy_(hot.sum(0), non_blocking=True)
        return torch.einsum("td,te,edf->tf", tokens, hot, self.experts) * kept


def build_capacity_router(device):
    torch.manual_seed(3)
    return CapacityRouter(device), (torch.randn(32, 8, device=device),)


class TrialMatmul:
    def __init__(self, w, rank=4):
        u, s, v = torch.linalg.svd(w.cpu(), full_matrices=False)
        self.full = w
        self.left, self.right = (u[:, :rank] * s[:rank]).to(w.device), v[:rank].to(w.device)
        self.trials, self.best = deque([0, 1, 0, 1, 0, 1]), 0

    def __call__(self, x):
        pick = self.trials.popleft() if self.trials else self.best
        return torch.tanh(x @ self.full if pick == 0 else (x @ self.left) @ self.right)


def build_trial_matmul(device):
    torch.manual_seed(4)
    return TrialMatmul(torch.randn(24, 24, device=device) * 0.2), (torch.randn(4, 24, device=device),)


class QuantLinear:
    def __init__(self, device):
        self.w = torch.randn(16, 16, device=device) * 0.25
        self.scale = None

    def __call__(self, x):
        if self.scale is None:
            self.scale = x.abs().amax() / 7
        q = (x / self.scale).round().clamp(-8, 7)
        return (q @ self.w) * self.scale


def build_quant_linear(device):
    torch.manual_seed(5)

    def refresh(args, kwargs, k):
        args[0].copy_(noise((6, 16), 900 + k) * (1 + k % 5))

    return graphsafe.Step(QuantLinear(device), (torch.randn(6, 16, device=device),), {}, refresh=refresh)


class LateAverage:
    def __init__(self, device, burn_in=5):
        self.w = torch.randn(8, 8, device=device) * 0.4
        self.calls, self.burn_in, self.mean = 0, burn_in, None

    def __call__(self, x):
        h = torch.tanh(x @ self.w)
        self.calls += 1
        if self.calls <= self.burn_in:
            return h
        if self.mean is None:
            self.mean = h.clone()
        return self.mean.lerp_(h, 0.15).clone()


def build_late_average(device):
    torch.manual_seed(6)
    return LateAverage(device), (torch.randn(4, 8, device=device),)


def build_flat_weights(device):
    torch.manual_seed(7)
    layer = nn.Linear(16, 8).to(device).requires_grad_(False)
    flat = torch.cat([layer.weight.flatten(), layer.bias]).clone()
    layer.weight.data, layer.bias.data = flat[:128].view(8, 16), flat[128:]

    def refresh(args, kwargs, k):
        args[0].copy_(noise((4, 16), 70 + k))
        if k % 4 == 3:
            flat.copy_(noise((136,), k) * 0.2)
            flat.resize_(64).resize_(136)
            layer.weight.data = flat.narrow(0, 0, 128).view(8, 16)
            layer.bias.set_(flat.untyped_storage(), 128, (8,), (1,))

    return graphsafe.Step(lambda x: torch.sigmoid(layer(x)), (torch.randn(4, 16, device=device),), {}, refresh=refresh)


def build_adapter_blend(device):
    torch.manual_seed(8)
    base = torch.randn(12, 12, device=device) * 0.3
    adapters = [torch.randn(12, 12, device=device) * 0.1]

    def step(x, *, blend):
        shares = blend / blend.sum()
        out = x @ base
        for share, delta in zip(shares.tolist(), adapters):
            out = out.add(x @ delta, alpha=share)
        return torch.relu(out)

    return graphsafe.Step(step, (torch.randn(4, 12, device=device),), {"blend": np.array([0.6])})


class SoftRouter:
    def __init__(self, device, experts=6):
        self.gate = torch.randn(8, experts, device=device)
        self.top = pinned(torch.zeros(1), device)

    def __call__(self, tokens):
        logits = tokens @ self.gate
        weights = torch.exp(0.5 * (logits - self.top.item()))
        self.top.copy_(logits.amax().view(1), non_blocking=True)
        return weights / weights.sum(dim=-1, keepdim=True)


def build_soft_router(device):
    torch.manual_seed(9)
    return SoftRouter(device), (torch.randn(10, 8, device=device),)


phase = contextvars.ContextVar("phase", default="train")
shared = {"keys": None}


@contextlib.contextmanager
def sampling(**entries):
    token, before = phase.set("sample"), dict(shared)
    shared.update(entries)
    try:
        yield
    finally:
        shared.update(before)
        phase.reset(token)


def build_shared_keys(device):
    torch.manual_seed(10)
    w = torch.randn(8, 8, device=device) * 0.5

    def attend(x):
        keys = shared["keys"] if phase.get() == "sample" else x
        return torch.softmax(x @ keys.t(), dim=-1) @ x

    def step(x):
        with sampling(keys=x @ w):
            return attend(x)

    return step, (torch.randn(5, 8, device=device),)

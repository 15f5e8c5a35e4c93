"""Recommender and feature pipelines that overlap small jobs on several CUDA streams."""
import contextlib
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

ROUNDS = 160


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else contextlib.nullcontext()


def new_stream(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def refine(z):
    for _ in range(ROUNDS):
        z.mul_(0.99).add_(0.01)
    return z


class PrefetchTower(nn.Module):
    """Looks the rows up on a side stream while the dense tower runs."""

    def __init__(self, device, settle):
        super().__init__()
        self.table = nn.Embedding(200, 32, device=device)
        self.dense = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32)).to(device)
        self.register_buffer("staging", torch.zeros(8, 32, device=device))
        self.side = new_stream(device)
        self.settle = settle

    @torch.no_grad()
    def forward(self, ids, feats):
        main = torch.cuda.current_stream() if self.side is not None else None
        if self.side is not None:
            self.side.wait_stream(main)
        with on(self.side):
            self.staging.copy_(refine(self.table(ids)))
        tower = self.dense(feats)
        if self.side is not None and self.settle == "early":
            main.wait_stream(self.side)
        score = (tower * self.staging).sum(-1)
        if self.side is not None and self.settle == "late":
            main.wait_stream(self.side)
        return score.sigmoid()


def build_prefetch_tower(device):
    return PrefetchTower(device, "late"), (torch.randint(0, 200, (8,), device=device), torch.randn(8, 16, device=device))


def build_prefetch_tower_joined(device):
    return PrefetchTower(device, "early"), (torch.randint(0, 200, (8,), device=device), torch.randn(8, 16, device=device))


class TwoBranch:
    """Adds a slowly refined branch to a projection; the second projection runs meanwhile."""

    def __init__(self, device, mark):
        self.w1 = torch.randn(64, 64, device=device) / 8
        self.w2 = torch.randn(64, 64, device=device) / 8
        self.seed = torch.rand(64, 64, device=device)
        self.side = new_stream(device)
        self.mark = mark

    @torch.no_grad()
    def __call__(self, x):
        proj = x @ self.w1
        main = None
        if self.side is not None:
            main = torch.cuda.current_stream()
            self.side.wait_stream(main)
        with on(self.side):
            slow = refine(self.seed * 2)
            slow = slow + proj
        if self.mark and self.side is not None:
            proj.record_stream(self.side)
        del proj
        other = (x * 3).tanh() @ self.w2
        if main is not None:
            main.wait_stream(self.side)
        return slow + 0.1 * other


def build_two_branch(device):
    return TwoBranch(device, False), (torch.randn(64, 64, device=device),)


def build_two_branch_marked(device):
    return TwoBranch(device, True), (torch.randn(64, 64, device=device),)


class TrackerFilter:
    """Reports the distance to the running state and moves the state along."""

    def __init__(self, device):
        self.state = torch.zeros(128, device=device)
        self.report = torch.zeros(128, device=device)
        self.side = new_stream(device)

    @torch.no_grad()
    def __call__(self, x):
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            weights = refine(x.abs().mean(0))
            torch.mul(weights, self.state, out=self.report)
        self.state.mul_(0.5).add_(x.mean(0))
        if self.side is not None:
            torch.cuda.current_stream().wait_stream(self.side)
        return self.report.clone()


def build_tracker_filter(device):
    return TrackerFilter(device), (torch.randn(16, 128, device=device),)


class MetricsLane:
    """Keeps running statistics on the stream that the logger reads from."""

    def __init__(self, device):
        self.lane = torch.cuda.default_stream(device) if device.type == "cuda" else None
        self.mean = torch.zeros(48, device=device)

    @torch.no_grad()
    def __call__(self, x):
        with on(self.lane):
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        h = x
        for _ in range(12):
            h = torch.sin(h) + 0.1 * x
        return h - self.mean


def build_metrics_lane(device):
    return MetricsLane(device), (torch.randn(32, 48, device=device),)


class CopyLane:
    """Stages the frame through a copy engine stream of its own."""

    def __init__(self, device):
        self.copier = new_stream(device)
        self.frame = torch.zeros(3, 16, 16, device=device)
        self.kernel = torch.randn(4, 3, 3, 3, device=device) / 5

    @torch.no_grad()
    def __call__(self, pixels, gain):
        with on(self.copier):
            self.frame.copy_(pixels)
        g = gain
        for _ in range(24):
            g = (g + gain).sqrt()
        return torch.nn.functional.conv2d(self.frame[None], self.kernel, padding=1) * g.mean()


def build_copy_lane(device):
    return CopyLane(device), (torch.rand(3, 16, 16, device=device), torch.rand(4, device=device) + 0.5)


class PacedSender:
    """Lets a step begin only when the reader of the previous output has been served."""

    def __init__(self, device):
        self.served = torch.cuda.Event() if device.type == "cuda" else None
        self.out = torch.zeros(64, device=device)

    @torch.no_grad()
    def __call__(self, x):
        if self.served is not None:
            self.served.wait()
        self.out.copy_(x.cumsum(0)[-1] * 0.5)
        y = self.out * 2 + x[0]
        if self.served is not None:
            self.served.record()
        return y


def build_paced_sender(device):
    return PacedSender(device), (torch.randn(8, 64, device=device),)


class ProbeRegression:
    """Least squares probe that keeps the loss of a reference batch for plotting."""

    def __init__(self, device):
        self.probe = nn.Linear(12, 3, device=device)
        self.reference = self.loss(torch.randn(6, 12, device=device), torch.randn(6, 3, device=device))

    def loss(self, x, y):
        return (self.probe(x) - y).square().mean()

    def __call__(self, x, y):
        self.probe.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        loss.backward()
        return loss.detach(), self.probe.weight.grad, self.probe.bias.grad


def build_probe_regression(device):
    return ProbeRegression(device), (torch.randn(6, 12, device=device), torch.randn(6, 3, device=device))


class PooledFeatures:
    """Computes a spectrum-like feature in a worker while the caller goes on."""

    def __init__(self, device, follow):
        self.pool = ThreadPoolExecutor(1)
        self.basis = torch.linspace(0.1, 3.0, 40, device=device)
        self.follow = follow and device.type == "cuda"

    def feature(self, x, stream):
        with torch.no_grad(), on(stream):
            return torch.cos(x[:, None] * self.basis).mean(0)

    @torch.no_grad()
    def __call__(self, x):
        stream = torch.cuda.current_stream() if self.follow else None
        later = self.pool.submit(self.feature, x, stream)
        energy = x.square().mean()
        return later.result() * energy


def build_pooled_features(device):
    return PooledFeatures(device, False), (torch.randn(96, device=device),)


def build_pooled_features_following(device):
    return PooledFeatures(device, True), (torch.randn(96, device=device),)

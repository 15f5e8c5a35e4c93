"""Routers, filters and solvers."""
import torch
import torch.nn.functional as F
from torch import nn


class TopExpert(nn.Module):
    def __init__(self, dim=16, n=4):
        super().__init__()
        self.gate = nn.Linear(dim, n)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n))

    def forward(self, x):
        best = int(self.gate(x.mean(0)).argmax())
        return self.experts[best](x)


class Dispatch(TopExpert):
    def forward(self, x):
        choice = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(-1)
            out.index_copy_(0, rows, expert(x.index_select(0, rows)))
        return out


class DenseDispatch(TopExpert):
    def forward(self, x):
        choice = F.one_hot(self.gate(x).argmax(-1), len(self.experts)).to(x.dtype)
        every = torch.stack([e(x) for e in self.experts], 1)
        return torch.einsum("bn,bnd->bd", choice, every)


class Jacobi:
    def __init__(self, device, n=16):
        self.a = torch.randn(n, n, device=device) + n * torch.eye(n, device=device)

    def __call__(self, b):
        d = self.a.diagonal()
        x = b / d
        while (self.a @ x - b).norm() > 1e-4:
            x = x + (b - self.a @ x) / d
        return x


class FixedJacobi(Jacobi):
    def __call__(self, b):
        d = self.a.diagonal()
        x = b / d
        for _ in range(12):
            r = b - self.a @ x
            x = torch.where(r.norm() > 1e-4, x + r / d, x)
        return x


def drop_invalid(points):
    return points[points[:, 2] > 0].mean(0)


def zero_invalid(points):
    points = points.clone()
    points[points[:, 2] <= 0] = 0.0
    return points.mean(0)


def expand_by_duration(frames, durations):
    return torch.repeat_interleave(frames, durations, dim=0).cumsum(0)


def guard_finite(x, w):
    y = x @ w
    if not torch.isfinite(y).all():
        y = torch.nan_to_num(y)
    return y


class PrefixAttention(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.q = nn.Linear(dim, dim)

    def forward(self, x, used):
        return self.q(x[: used + 1]).sum(0)


class Whiten:
    def __call__(self, x):
        cov = x.t() @ x / x.shape[0] + torch.eye(x.shape[1], device=x.device)
        return x @ torch.linalg.inv(cov)


class Histogrammer:
    def __call__(self, ids):
        return torch.bincount(ids, minlength=16).float() / ids.numel()


class ScatterHistogram:
    def __init__(self, device, n=16):
        self.ones = torch.ones(64, device=device)
        self.n = n

    def __call__(self, ids):
        return self.ones.new_zeros(self.n).scatter_add_(0, ids, self.ones) / ids.numel()


def build_top_expert(device):
    return TopExpert().to(device), (torch.randn(4, 16, device=device),)


def build_dispatch(device):
    return Dispatch().to(device), (torch.randn(8, 16, device=device),)


def build_dense_dispatch(device):
    return DenseDispatch().to(device), (torch.randn(8, 16, device=device),)


def build_jacobi(device):
    return Jacobi(device), (torch.randn(16, device=device),)


def build_fixed_jacobi(device):
    return FixedJacobi(device), (torch.randn(16, device=device),)


def build_drop_invalid(device):
    return drop_invalid, (torch.randn(32, 3, device=device),)


def build_zero_invalid(device):
    return zero_invalid, (torch.randn(32, 3, device=device),)


def build_durations(device):
    return expand_by_duration, (torch.randn(6, 4, device=device), torch.tensor([1, 3, 2, 2, 1, 3], device=device))


def build_guard_finite(device):
    return guard_finite, (torch.randn(4, 8, device=device), torch.randn(8, 8, device=device))


def build_prefix(device):
    return PrefixAttention().to(device), (torch.randn(12, 16, device=device), torch.tensor(5, device=device))


def build_whiten(device):
    return Whiten(), (torch.randn(32, 8, device=device),)


def build_histogrammer(device):
    return Histogrammer(), (torch.randint(0, 16, (64,), device=device),)


def build_scatter_histogram(device):
    return ScatterHistogram(device), (torch.randint(0, 16, (64,), device=device),)

"""Layers that keep intermediate results."""
import torch
import torch.nn.functional as F
from graphsafe import Step
from torch import nn


class MergedAdapter(nn.Module):
    """A linear layer whose low-rank adapter is folded once per version."""

    def __init__(self, dim=16, rank=4):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.a = nn.Parameter(torch.randn(rank, dim) * 0.1)
        self.b = nn.Parameter(torch.randn(dim, rank) * 0.1)
        self._merged, self._stamp = None, None

    @torch.no_grad()
    def forward(self, x):
        stamp = (self.a._version, self.b._version)
        if stamp != self._stamp:
            self._merged = self.base.weight + self.b @ self.a
            self._stamp = stamp
        return F.linear(x, self._merged, self.base.bias)


class UnmergedAdapter(MergedAdapter):
    @torch.no_grad()
    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.a), self.b)


class VersionedEncoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.enc = nn.Linear(dim, dim)
        self.dec = nn.Linear(dim, dim)
        self.memo = {}

    @torch.no_grad()
    def forward(self, x, context):
        key = context._version
        if key not in self.memo:
            self.memo = {key: torch.tanh(self.enc(context))}
        return self.dec(x) + self.memo[key].mean(0)


class DeepCache(nn.Module):
    def __init__(self, dim=16, every=8):
        super().__init__()
        self.shallow = nn.Linear(dim, dim)
        self.deep = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))
        self.every, self.i, self.kept = every, 0, None

    @torch.no_grad()
    def forward(self, x):
        if self.i % self.every == 0 or self.kept is None:
            self.kept = self.deep(x)
        self.i += 1
        return self.shallow(x) + self.kept


class TeaCache(DeepCache):
    def __init__(self, dim=16, threshold=0.3):
        super().__init__(dim)
        self.threshold, self.previous, self.distance = threshold, None, 0.0

    @torch.no_grad()
    def forward(self, x):
        if self.previous is not None:
            self.distance += ((x - self.previous).abs().mean() / self.previous.abs().mean()).item()
        self.previous = x.clone()
        if self.kept is None or self.distance > self.threshold:
            self.kept, self.distance = self.deep(x), 0.0
        return self.shallow(x) + self.kept


class ListCache(nn.Module):
    def __init__(self, dim=16, keep=64):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.ks, self.vs, self.keep = [], [], keep

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        self.ks.append(k)
        self.vs.append(v)
        del self.ks[: -self.keep], self.vs[: -self.keep]
        ks, vs = torch.stack(self.ks, 1), torch.stack(self.vs, 1)
        w = torch.softmax(torch.einsum("bd,btd->bt", q, ks), -1)
        return torch.einsum("bt,btd->bd", w, vs)


class CatCache(nn.Module):
    def __init__(self, device, dim=16):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.k = torch.zeros(2, 1, dim, device=device)
        self.v = torch.zeros(2, 1, dim, device=device)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        self.k = torch.cat([self.k, k], 1)[:, -48:]
        self.v = torch.cat([self.v, v], 1)[:, -48:]
        return F.scaled_dot_product_attention(q, self.k, self.v)


class RollCache(CatCache):
    """Keeps a fixed window and shifts it in place."""

    def __init__(self, device, dim=16, window=16):
        super().__init__(device, dim)
        self.k = torch.zeros(2, window, dim, device=device)
        self.v = torch.zeros(2, window, dim, device=device)

    @torch.no_grad()
    def forward(self, x):
        q, k, v = self.qkv(x).unsqueeze(1).chunk(3, -1)
        self.k.copy_(torch.cat([self.k[:, 1:], k], 1))
        self.v.copy_(torch.cat([self.v[:, 1:], v], 1))
        return F.scaled_dot_product_attention(q, self.k, self.v)


class PagedPointer:
    """Writes rows of a page table one after the other."""

    def __init__(self, device, pages=256):
        self.pages = torch.zeros(pages, 8, device=device)
        self.at = 0

    def __call__(self, row):
        self.pages[self.at % len(self.pages)].copy_(row)
        self.at += 1
        return self.pages.sum(0)


class DevicePointer(PagedPointer):
    def __init__(self, device, pages=64):
        super().__init__(device, pages)
        self.at = torch.zeros(1, dtype=torch.int64, device=device)

    def __call__(self, row):
        self.pages.index_copy_(0, self.at, row.unsqueeze(0))
        self.at.add_(1).remainder_(len(self.pages))
        return self.pages.sum(0)


class RotaryOffset(nn.Module):
    def __init__(self, device, dim=16):
        super().__init__()
        self.freq = torch.arange(0, dim, 2, device=device) / dim
        self.offset = 0
        self.tables = {}

    def _table(self, length, device):
        key = (self.offset, length)
        if key not in self.tables:
            t = torch.arange(self.offset, self.offset + length, device=device)
            self.tables[key] = torch.outer(t, 10000.0 ** -self.freq)
        return self.tables[key]

    def forward(self, x):
        angle = self._table(x.shape[1], x.device)
        self.offset += x.shape[1]
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class RotaryShape(RotaryOffset):
    """Caches a table per length; positions always start at zero."""

    def forward(self, x):
        angle = self._table(x.shape[1], x.device)
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def build_merged_adapter(device):
    net = MergedAdapter().to(device)
    x = torch.randn(4, 16, device=device)

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(k)
        with torch.no_grad():
            args[0].copy_(torch.randn(4, 16, generator=g))
            if k % 3 == 0:
                net.a.copy_(torch.randn(net.a.shape, generator=g) * 0.2)

    return Step(net, (x,), refresh=refresh)


def build_unmerged_adapter(device):
    net = UnmergedAdapter().to(device)
    x = torch.randn(4, 16, device=device)

    def refresh(args, kwargs, k):
        g = torch.Generator().manual_seed(k)
        with torch.no_grad():
            args[0].copy_(torch.randn(4, 16, generator=g))
            if k % 3 == 0:
                net.a.copy_(torch.randn(net.a.shape, generator=g) * 0.2)

    return Step(net, (x,), refresh=refresh)


def build_versioned_encoder(device):
    net = VersionedEncoder().to(device)
    return net, (torch.randn(4, 16, device=device), torch.randn(6, 16, device=device))


def build_deep_cache(device):
    return DeepCache().to(device), (torch.randn(4, 16, device=device),)


def build_tea_cache(device):
    return TeaCache().to(device), (torch.randn(4, 16, device=device),)


def build_list_cache(device):
    return ListCache().to(device), (torch.randn(2, 16, device=device),)


def build_cat_cache(device):
    return CatCache(device).to(device), (torch.randn(2, 16, device=device),)


def build_roll_cache(device):
    return RollCache(device).to(device), (torch.randn(2, 16, device=device),)


def build_paged_pointer(device):
    return PagedPointer(device), (torch.randn(8, device=device),)


def build_device_pointer(device):
    return DevicePointer(device), (torch.randn(8, device=device),)


def build_rotary_offset(device):
    return RotaryOffset(device), (torch.randn(2, 4, 16, device=device),)


def build_rotary_shape(device):
    return RotaryShape(device), (torch.randn(2, 4, 16, device=device),)

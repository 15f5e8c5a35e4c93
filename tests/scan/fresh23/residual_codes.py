# Residual vector quantisation for an audio codec, trained by moving averages.
import torch
import torch.nn as nn
import torch.nn.functional as F


class EMACodebook(nn.Module):
    def __init__(self, size, dim, decay=0.95, floor=0.98):
        super().__init__()
        self.size, self.decay, self.floor = size, decay, floor
        self.register_buffer("vectors", torch.randn(size, dim) * 0.3)
        self.register_buffer("count", torch.ones(size))
        self.register_buffer("total", self.vectors.clone())

    def nearest(self, x):
        d = x.square().sum(1, keepdim=True) - 2 * x @ self.vectors.t() + self.vectors.square().sum(1)
        return d.argmin(1)

    @torch.no_grad()
    def absorb(self, x, codes):
        hot = F.one_hot(codes).to(x.dtype)
        used = torch.zeros_like(self.count)
        used[: hot.shape[1]] = hot.sum(0)
        sums = torch.zeros_like(self.total)
        sums[: hot.shape[1]] = hot.t() @ x
        self.count.lerp_(used, 1 - self.decay)
        self.total.lerp_(sums, 1 - self.decay)
        self.vectors.copy_(self.total / self.count.clamp_min(1e-3)[:, None])

    @torch.no_grad()
    def revive(self, x):
        stale = self.count < self.floor
        if stale.any():
            picks = x[torch.randint(0, x.shape[0], (self.size,), device=x.device)]
            self.vectors[stale] = picks[stale]
            self.count.masked_fill_(stale, 1.0)

    def forward(self, x):
        codes = self.nearest(x)
        quantised = self.vectors.index_select(0, codes)
        self.absorb(x, codes)
        self.revive(x)
        return x + (quantised - x).detach(), codes


class ResidualQuantiser(nn.Module):
    def __init__(self, stages=3, size=16, dim=8, hidden=24):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv1d(1, hidden, 7, stride=4, padding=3), nn.ELU(), nn.Conv1d(hidden, dim, 3, padding=1))
        self.books = nn.ModuleList([EMACodebook(size, dim) for _ in range(stages)])
        self.decode = nn.Sequential(nn.Conv1d(dim, hidden, 3, padding=1), nn.ELU(), nn.ConvTranspose1d(hidden, 1, 8, stride=4, padding=2))

    def forward(self, wave):
        z = self.encode(wave)
        b, d, t = z.shape
        rest = z.transpose(1, 2).reshape(b * t, d)
        out = torch.zeros_like(rest)
        codes = []
        for book in self.books:
            q, c = book(rest)
            out = out + q
            rest = rest - q.detach()
            codes.append(c)
        recon = self.decode(out.view(b, t, d).transpose(1, 2))
        return recon, torch.stack(codes).view(len(codes), b, t)


def build(device):
    torch.manual_seed(4)
    model = ResidualQuantiser().to(device).train()
    wave = torch.randn(3, 1, 64, device=device)
    return model, (wave,)

"""VQ-VAE training with an EMA codebook (straight-through, cluster sizes, Laplace smoothing)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class VectorQuantizerEMA(nn.Module):
    def __init__(self, n=16, d=8, decay=0.99, eps=1e-5, beta=0.25):
        super().__init__()
        self.n, self.decay, self.eps, self.beta = n, decay, eps, beta
        embed = torch.randn(n, d)
        self.register_buffer("embed", embed)
        self.register_buffer("cluster_size", torch.zeros(n))
        self.register_buffer("embed_avg", embed.clone())

    def forward(self, z):
        flat = z.reshape(-1, z.shape[-1])
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed.t() + self.embed.pow(2).sum(1)
        idx = dist.argmin(1)
        onehot = torch.zeros_like(dist).scatter_(1, idx[:, None], 1.0)
        q = F.embedding(idx, self.embed).view_as(z)
        if self.training:
            with torch.no_grad():
                self.cluster_size.lerp_(onehot.sum(0), 1 - self.decay)
                self.embed_avg.lerp_(onehot.t() @ flat.detach(), 1 - self.decay)
                total = self.cluster_size.sum()
                size = (self.cluster_size + self.eps) / (total + self.n * self.eps) * total
                self.embed.copy_(self.embed_avg / size[:, None])
        commit = self.beta * F.mse_loss(z, q.detach())
        p = onehot.mean(0)
        perplexity = torch.exp(-(p * (p + 1e-10).log()).sum())
        return z + (q - z).detach(), commit, perplexity


class VQVAE(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, d))
        self.vq = VectorQuantizerEMA(d=d)
        self.dec = nn.Sequential(nn.Linear(d, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        q, commit, ppl = self.vq(self.enc(x))
        return self.dec(q), commit, ppl


def build(device, batch=20):
    model = VQVAE().to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x = torch.randn(batch, 12, device=device)

    def step(x):
        recon, commit, ppl = model(x)
        loss = F.mse_loss(recon, x) + commit
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), ppl

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, 12)))

"""Vector quantizer with EMA codebook that initialises itself from the first batch (`initted` is a buffer)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class EuclideanCodebook(nn.Module):
    def __init__(self, dim, size, decay=0.95, eps=1e-5):
        super().__init__()
        self.decay, self.eps, self.size = decay, eps, size
        embed = torch.randn(size, dim)
        self.register_buffer("initted", torch.tensor([False]))
        self.register_buffer("cluster_size", torch.ones(size))
        self.register_buffer("embed", embed)
        self.register_buffer("embed_avg", embed.clone())

    def init_embed_(self, data):
        if self.initted:
            return
        index = torch.arange(self.size, device=data.device) % data.shape[0]
        self.embed.copy_(data[index])
        self.embed_avg.copy_(data[index])
        self.initted.fill_(True)

    @torch.no_grad()
    def forward(self, x):
        self.init_embed_(x)
        dist = x.pow(2).sum(1, keepdim=True) - 2 * x @ self.embed.t() + self.embed.pow(2).sum(1)
        code = dist.argmin(-1)
        onehot = F.one_hot(code, self.size).type(x.dtype)
        quant = F.embedding(code, self.embed)
        if self.training:
            self.cluster_size.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.embed_avg.mul_(self.decay).add_(onehot.t() @ x, alpha=1 - self.decay)
            n = self.cluster_size.sum()
            smooth = (self.cluster_size + self.eps) / (n + self.size * self.eps) * n
            self.embed.copy_(self.embed_avg / smooth.unsqueeze(1))
        return quant, code


def build(device):
    torch.manual_seed(20)
    vq = EuclideanCodebook(8, 16).to(device).train()
    x = torch.randn(32, 8, device=device)
    return graphsafe.Step(vq, (x,), refresh=lambda a, kw, k: a[0].copy_(torch.randn(32, 8)))

"""Mixtral's sparse MoE block in the older transformers style: a loop over experts with torch.where."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Expert(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.w1, self.w3 = nn.Linear(d, f, bias=False), nn.Linear(d, f, bias=False)
        self.w2 = nn.Linear(f, d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoe(nn.Module):
    def __init__(self, d=16, f=32, n=4, k=2):
        super().__init__()
        self.n, self.k = n, k
        self.gate = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(Expert(d, f) for _ in range(n))

    def forward(self, x):
        b, t, d = x.shape
        x = x.view(-1, d)
        router_logits = self.gate(x)
        w = F.softmax(router_logits, dim=1, dtype=torch.float)
        w, sel = torch.topk(w, self.k, dim=-1)
        w = (w / w.sum(-1, keepdim=True)).to(x.dtype)
        out = torch.zeros_like(x)
        mask = F.one_hot(sel, num_classes=self.n).permute(2, 1, 0)
        for e in range(self.n):
            idx, top_x = torch.where(mask[e])
            cur = self.experts[e](x[None, top_x].reshape(-1, d)) * w[top_x, idx, None]
            out.index_add_(0, top_x, cur.to(x.dtype))
        return out.view(b, t, d), router_logits


def build(device):
    m = SparseMoe().to(device).eval().requires_grad_(False)
    return m, (torch.randn(2, 6, 16, device=device),)

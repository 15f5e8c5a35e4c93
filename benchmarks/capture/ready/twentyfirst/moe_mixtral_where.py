"""The sparse MoE block of Mixtral as Hugging Face wrote it first."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseMoeBlock(nn.Module):
    def __init__(self, dim=16, hidden=32, experts=4, top_k=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.top_k, self.n = top_k, experts

    def forward(self, hidden):
        b, t, d = hidden.shape
        hidden = hidden.view(-1, d)
        logits = self.gate(hidden)
        weights = F.softmax(logits, dim=1, dtype=torch.float)
        weights, selected = torch.topk(weights, self.top_k, dim=-1)
        weights = (weights / weights.sum(dim=-1, keepdim=True)).to(hidden.dtype)
        final = torch.zeros((b * t, d), dtype=hidden.dtype, device=hidden.device)
        mask = F.one_hot(selected, num_classes=self.n).permute(2, 1, 0)
        for e in range(self.n):
            idx, top_x = torch.where(mask[e])
            current = hidden[None, top_x].reshape(-1, d)
            out = self.experts[e](current) * weights[top_x, idx, None]
            final.index_add_(0, top_x, out.to(hidden.dtype))
        return final.reshape(b, t, d), logits


def build(device):
    torch.manual_seed(8)
    block = SparseMoeBlock().to(device).eval().requires_grad_(False)
    return block, (torch.randn(2, 5, 16, device=device),)

import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self, docs, dim=16):
        super().__init__()
        self.register_buffer("table", torch.randn(docs, dim))
        self.query = nn.Linear(dim, dim)
        self.center = None
        self.side = None

    @torch.no_grad()
    def forward(self, x):
        q = self.query(x)
        if self.center is None:
            self.center = q.mean(0, keepdim=True)
        q = q - self.center
        scores = q @ self.table.t()
        boost = torch.tensor([1.0, 0.5, 0.25], device=x.device)
        top, idx = scores.topk(3, -1)
        return top * boost, idx


def build(device):
    torch.manual_seed(2)
    return Ranker(32).to(device), (torch.randn(5, 16, device=device),)

"""Batched token choice with penalties and a nucleus."""
import torch
from torch import Tensor, nn


def gumbel_like(x: Tensor) -> Tensor:
    return -torch.log(torch.empty_like(x).exponential_(1.0) + 1e-10)


class Picker(nn.Module):
    def __init__(self, rows: int, vocab: int, keep: int = 16):
        super().__init__()
        self.keep = keep
        self.register_buffer("seen", torch.zeros(rows, vocab))
        self.register_buffer("trail", torch.full((rows, 12), -1, dtype=torch.long))
        self.register_buffer("head", torch.zeros(1, dtype=torch.long))
        self.register_buffer("one", torch.ones(rows, 1))
        self.register_buffer("banned", torch.tensor([0, 3], dtype=torch.long))

    def forward(self, logits: Tensor, temperature: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits.index_fill(1, self.banned, -1e4) - 0.2 * self.seen
        hot = temperature.unsqueeze(1)
        vals, ids = logits.topk(self.keep, dim=-1)
        probs = (vals / hot.clamp_min(1e-3)).softmax(-1)
        outside = probs.cumsum(-1) - probs > top_p.unsqueeze(1)
        noisy = vals / hot.clamp_min(1e-3) + gumbel_like(vals)
        noisy = noisy.masked_fill(outside, float("-inf"))
        place = torch.where(hot < 1e-3, torch.zeros_like(ids[:, :1]), noisy.argmax(-1, keepdim=True))
        token = ids.gather(1, place)
        self.seen.scatter_add_(1, token, self.one)
        self.trail.index_copy_(1, self.head, token)
        self.head.add_(1).remainder_(self.trail.shape[1])
        loops = (self.trail == token).sum(1)
        return token, loops


def build(device):
    torch.manual_seed(13)
    pick = Picker(4, 64).to(device)
    args = (torch.randn(4, 64, device=device), torch.rand(4, device=device), torch.rand(4, device=device))
    return pick, args

"""Sampler written as one fixed-shape program: top-k, min-p and Gumbel noise, greedy rows chosen by a tensor."""
import torch
from torch import nn


class GumbelPicker(nn.Module):
    def __init__(self, vocab=64, k=16):
        super().__init__()
        self.k = k
        self.register_buffer("ban", torch.zeros(vocab))
        self.register_buffer("stop_ids", torch.tensor([2, 3]))
        self.ban.index_fill_(0, self.stop_ids, -1e4)
        self.register_buffer("counts", torch.zeros(4, vocab))

    def forward(self, logits, temperature, greedy, min_p):
        logits = logits + self.ban - 0.2 * self.counts
        top, index = logits.topk(self.k, dim=-1)
        logp = (top / temperature[:, None]).log_softmax(-1)
        limit = logp.amax(-1, keepdim=True) + min_p[:, None].log()
        logp = logp.masked_fill(logp < limit, float("-inf"))
        gumbel = -torch.empty_like(logp).exponential_().log()
        noisy = torch.where(greedy[:, None], logp, logp + gumbel)
        slot = noisy.argmax(-1, keepdim=True)
        token = index.gather(1, slot)
        self.counts.scatter_add_(1, token, torch.ones_like(token, dtype=logits.dtype))
        return token.squeeze(1), logp.gather(1, slot).squeeze(1)


def build(device):
    torch.manual_seed(0)
    picker = GumbelPicker().to(device)
    args = (
        3 * torch.randn(4, 64, device=device),
        torch.tensor([0.5, 0.8, 1.0, 1.3]).to(device),
        torch.tensor([True, False, False, False]).to(device),
        torch.tensor([0.05, 0.1, 0.02, 0.2]).to(device),
    )

    @torch.no_grad()
    def pick(logits, temperature, greedy, min_p):
        return picker(logits, temperature, greedy, min_p)

    return pick, args

"""Top-p with `logits[mask] = -inf`: a mask store of a Python scalar becomes masked_fill, which does not wait."""
import torch
import torch.nn as nn

import graphsafe


class Head(nn.Module):
    def __init__(self, dim=16, vocab=40):
        super().__init__()
        self.lm = nn.Linear(dim, vocab, bias=False)
        self.register_buffer("bad", torch.zeros(vocab, dtype=torch.bool))
        self.register_buffer("top_p", torch.full((1,), 0.8))

    def forward(self, h):
        logits = self.lm(h)
        logits = logits.masked_fill(self.bad, float("-inf"))
        ordered, index = torch.sort(logits, descending=True, dim=-1)
        remove = ordered.softmax(-1).cumsum(-1) > self.top_p
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = False
        drop = remove.scatter(1, index, remove)
        logits[drop] = float("-inf")
        probs = logits.softmax(-1)
        return probs, torch.argmax(probs / torch.empty_like(probs).exponential_(), -1)


def build(device, batch=3):
    torch.manual_seed(3)
    head = Head().to(device).eval().requires_grad_(False)
    h = torch.randn(batch, 16, device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(2 * torch.randn(batch, 16))
        head.bad.copy_(torch.rand(40) < 0.1)
        head.top_p.fill_(0.5 + 0.04 * (k % 10))

    return graphsafe.Step(head, (h,), refresh=refresh)

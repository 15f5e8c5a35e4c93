"""Speculative decoding: a draft proposes, a target verifies, both as one step."""
import torch
import torch.nn as nn


class TinyLm(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens):
        return self.head(torch.tanh(self.embed(tokens).cumsum(1)))


class Speculator:
    def __init__(self, draft, target, width: int, device):
        self.draft, self.target = draft, target
        self.width = width
        self.noise = torch.Generator(device).manual_seed(7)
        self.accepted = torch.zeros(1, dtype=torch.long, device=device)

    def propose(self, tokens):
        for _ in range(self.width):
            probs = self.draft(tokens)[:, -1].softmax(-1)
            race = torch.empty_like(probs).exponential_(generator=self.noise)
            tokens = torch.cat([tokens, (probs / race).argmax(-1, keepdim=True)], dim=1)
        return tokens

    def __call__(self, tokens):
        length = tokens.shape[1]
        proposed = self.propose(tokens)
        choice = self.target(proposed)[:, length - 1 : -1].argmax(-1)
        agree = (choice == proposed[:, length:]).long().cumprod(1).sum(1)
        self.accepted += agree.sum()
        keep = agree.min().item()
        return proposed[:, : length + keep]


def build(device):
    torch.manual_seed(11)
    models = [TinyLm(40, 16).to(device).eval().requires_grad_(False) for _ in range(2)]
    tokens = torch.randint(40, (2, 6), device=device)
    return Speculator(*models, width=3, device=device), (tokens,)

"""One step of beam search over a small recurrent language model."""
import torch
from torch import nn


class Beams(nn.Module):
    def __init__(self, vocab=40, width=24, beams=3, limit=16):
        super().__init__()
        self.vocab, self.beams, self.limit = vocab, beams, limit
        self.emb = nn.Embedding(vocab, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)
        self.register_buffer("score", torch.zeros(beams))
        self.register_buffer("hidden", torch.zeros(beams, width))
        self.register_buffer("tokens", torch.zeros(beams, limit, dtype=torch.long))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("last", torch.ones(beams, dtype=torch.long))

    def reorder(self, parent):
        self.tokens.copy_(self.tokens.index_select(0, parent))
        self.hidden.copy_(self.hidden.index_select(0, parent))

    def forward(self, bias):
        self.hidden.copy_(self.cell(self.emb(self.last), self.hidden))
        logp = torch.log_softmax(self.out(self.hidden) + bias, dim=-1)
        total = (self.score.unsqueeze(1) + logp).flatten()
        best, flat = total.topk(self.beams)
        parent = torch.div(flat, self.vocab, rounding_mode="floor")
        token = flat - parent * self.vocab
        self.reorder(parent)
        self.tokens.index_copy_(1, self.at, token.unsqueeze(1))
        self.at.add_(1).remainder_(self.limit)
        self.score.copy_(best - best.amax())
        self.last.copy_(token)
        return token, best


def build(device):
    torch.manual_seed(21)
    model = Beams().to(device).requires_grad_(False)
    return model.forward, (torch.randn(40, device=device),)

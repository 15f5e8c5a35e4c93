"""Nucleus sampling over beams for a small language model."""
import torch
import torch.nn as nn


class NucleusSampler(nn.Module):
    def __init__(self, top_p: float, temperature: float):
        super().__init__()
        self.top_p = top_p
        self.temperature = temperature

    def forward(self, logits):
        probs = torch.softmax(logits / self.temperature, dim=-1)
        ordered, order = probs.sort(dim=-1, descending=True)
        mass = ordered.cumsum(dim=-1)
        width = int((mass < self.top_p).sum(dim=-1).max()) + 1
        kept = ordered[:, :width]
        return kept / kept.sum(-1, keepdim=True), order[:, :width]


class BeamScorer(nn.Module):
    def __init__(self, beams: int, eos: int):
        super().__init__()
        self.beams = beams
        self.eos = eos
        self.register_buffer("scores", torch.zeros(beams))

    def forward(self, probs, order):
        best = probs.argmax(dim=-1, keepdim=True)
        token = order.gather(1, best).squeeze(1)
        gained = probs.gather(1, best).squeeze(1).log()
        self.scores += gained
        alive = self.scores[token != self.eos]
        return token, alive.sum()


class Decoder(nn.Module):
    def __init__(self, vocab: int, dim: int, beams: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)
        self.sampler = NucleusSampler(0.9, 0.8)
        self.scorer = BeamScorer(beams, eos=0)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        probs, order = self.sampler(self.head(state))
        token, total = self.scorer(probs, order)
        return token, total, state


def build(device):
    torch.manual_seed(4)
    model = Decoder(vocab=50, dim=16, beams=4).to(device).eval().requires_grad_(False)
    token = torch.arange(4, device=device)
    return model, (token, torch.zeros(4, 16, device=device))

"""A recommender that reads a session of clicks with a packed GRU and ranks a shortlist."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class SessionEncoder(nn.Module):
    def __init__(self, items, width):
        super().__init__()
        self.items = nn.Embedding(items, width, padding_idx=0)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.gate = nn.Linear(width, 1)

    def forward(self, clicks):
        lengths = (clicks > 0).sum(1).clamp(min=1)
        host_lengths = lengths.cpu()
        packed = pack_padded_sequence(self.items(clicks), host_lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=clicks.shape[1])
        return hidden, lengths


class Ranker(nn.Module):
    def __init__(self, items=300, width=32):
        super().__init__()
        self.encoder = SessionEncoder(items, width)
        self.query = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(items))

    def summarise(self, hidden, lengths):
        longest = lengths.max()
        hidden = hidden[:, :longest]
        place = torch.arange(hidden.shape[1], device=hidden.device)
        gate = self.encoder.gate(hidden).squeeze(-1)
        gate = gate.masked_fill(place >= lengths.unsqueeze(1), -1e9).softmax(-1)
        return (gate.unsqueeze(1) @ hidden).squeeze(1)

    def forward(self, clicks, shortlist):
        hidden, lengths = self.encoder(clicks)
        query = self.query(self.summarise(hidden, lengths))
        vectors = self.encoder.items(shortlist)
        scores = (vectors @ query.unsqueeze(-1)).squeeze(-1) + self.bias[shortlist]
        return scores.topk(10, dim=1)


def build(device):
    torch.manual_seed(19)
    ranker = Ranker().to(device).eval().requires_grad_(False)
    clicks = torch.randint(1, 300, (4, 20), device=device)
    clicks[0, 9:].zero_()
    clicks[2, 15:].zero_()
    shortlist = torch.randint(1, 300, (4, 60), device=device)
    return ranker, (clicks, shortlist)

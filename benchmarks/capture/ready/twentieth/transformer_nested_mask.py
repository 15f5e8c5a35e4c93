"""nn.TransformerEncoder in eval mode with a padding mask (the nested-tensor fast path is on by default)."""
import torch
import torch.nn as nn

import graphsafe


class Classifier(nn.Module):
    def __init__(self, vocab=60, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        layer = nn.TransformerEncoderLayer(d, 4, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(d, 3)

    def forward(self, ids):
        pad = ids == 0
        x = self.encoder(self.emb(ids), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        pooled = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return self.head(pooled)


def make_batch(batch, t):
    ids = torch.randint(1, 60, (batch, t))
    lengths = torch.randint(3, t, (batch, 1))
    return ids * (torch.arange(t)[None] < lengths)


def build(device, batch=4, t=10):
    model = Classifier().to(device).eval()
    ids = make_batch(batch, t).to(device)

    @torch.no_grad()
    def step(ids):
        return model(ids)

    return graphsafe.Step(step, (ids,), refresh=lambda a, k, i: a[0].copy_(make_batch(batch, t)))

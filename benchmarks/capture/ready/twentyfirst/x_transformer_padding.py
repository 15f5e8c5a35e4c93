"""nn.TransformerEncoder in eval mode with a padding mask: the nested-tensor fast path."""
import torch
import torch.nn as nn

import graphsafe


class TextClassifier(nn.Module):
    def __init__(self, vocab=50, dim=32, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, 16, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        pad = ids == 0
        h = self.encoder(self.embed(ids) + self.pos[:, : ids.shape[1]], src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.head((h * keep).sum(1) / keep.sum(1).clamp_min(1))


def sentences(batch=4, length=16):
    ids = torch.randint(1, 50, (batch, length))
    n = torch.randint(4, length + 1, (batch, 1))
    n[0] = length
    return ids.masked_fill(torch.arange(length) >= n, 0)


def build(device):
    torch.manual_seed(2)
    model = TextClassifier().to(device).eval().requires_grad_(False)
    ids = sentences().to(device)

    @torch.inference_mode()
    def predict(ids):
        return model(ids)

    return graphsafe.Step(predict, (ids,), refresh=lambda a, kw, k: a[0].copy_(sentences()))

"""Vision transformer inference with nn.TransformerEncoderLayer's fused path, and a KV-free cross attention."""
import torch
import torch.nn as nn

import graphsafe


class ViT(nn.Module):
    def __init__(self, dim=32, patch=4, size=16, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        n = (size // patch) ** 2
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.probe = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pool = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        b = x.shape[0]
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(b, -1, -1), x], 1) + self.pos
        x = self.encoder(x)
        pooled, weights = self.pool(self.probe.expand(b, -1, -1), x, x, average_attn_weights=False)
        return self.head(pooled.squeeze(1) + x[:, 0]), weights


def build(device, batch=2):
    torch.manual_seed(6)
    model = ViT().to(device).eval().requires_grad_(False)
    return model, (torch.randn(batch, 3, 16, 16, device=device),)

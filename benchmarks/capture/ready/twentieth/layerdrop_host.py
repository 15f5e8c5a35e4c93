"""LayerDrop as in fairseq / HF wav2vec2: a CPU random number decides whether a layer is skipped."""
import torch
import torch.nn as nn

import graphsafe


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        return x + self.net(x)


class Encoder(nn.Module):
    def __init__(self, d=16, depth=6, layerdrop=0.1):
        super().__init__()
        self.pos = nn.Conv1d(d, d, 3, padding=1, groups=4)
        self.layers = nn.ModuleList(FeedForward(d) for _ in range(depth))
        self.layerdrop = layerdrop

    def forward(self, x):
        x = x + self.pos(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            dropout_probability = torch.rand([])
            skip = self.training and dropout_probability < self.layerdrop
            if not skip:
                x = layer(x)
        return x


def build(device, batch=2, t=10):
    enc = Encoder().to(device).train()
    opt = torch.optim.Adam(enc.parameters(), lr=1e-4, capturable=True)
    x = torch.randn(batch, t, 16, device=device)

    def step(x):
        opt.zero_grad(set_to_none=True)
        loss = (enc(x) - x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return graphsafe.Step(step, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(batch, t, 16)))

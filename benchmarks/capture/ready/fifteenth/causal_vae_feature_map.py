"""Video decoder by chunks: each causal convolution keeps the last two frames of its input in a list, feat_map."""
import torch

import graphsafe


class CausalConv(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = torch.nn.Conv1d(channels, channels, 3)

    def forward(self, x, cache):
        return self.conv(torch.cat([cache, x], 2))


class Decoder(torch.nn.Module):
    def __init__(self, channels=6, depth=3):
        super().__init__()
        self.convs = torch.nn.ModuleList(CausalConv(channels) for _ in range(depth))
        self.feat_map = [None] * depth
        self.feat_idx = 0

    def clear_cache(self, like):
        self.feat_map = [torch.zeros_like(like[:, :, :2]) for _ in self.convs]

    def run(self, conv, x):
        index = self.feat_idx
        cache_x = x[:, :, -2:].clone()
        out = conv(x, self.feat_map[index])
        self.feat_map[index] = cache_x
        self.feat_idx += 1
        return out

    def forward(self, x):
        self.feat_idx = 0
        for conv in self.convs:
            x = x + torch.tanh(self.run(conv, x))
        return x


def build(device):
    decoder = Decoder().to(device).eval().requires_grad_(False)
    x = torch.randn(2, 6, 4, device=device)
    decoder.clear_cache(x)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 6, 4))

    return graphsafe.Step(decoder, (x,), refresh=refresh)

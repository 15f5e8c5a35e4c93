"""KV offload on a second stream: the copy out of the hidden states overlaps with their in-place update."""
import torch
import torch.nn as nn

import graphsafe


class Stage(nn.Module):
    def __init__(self, device, d=16, tokens=6):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.norm = nn.LayerNorm(d)
        self.copy_stream = torch.cuda.Stream(device)
        self.register_buffer("snapshot", torch.zeros(tokens, d))

    def forward(self, x):
        main = torch.cuda.current_stream(x.device)
        h = self.norm(x)
        self.copy_stream.wait_stream(main)
        with torch.cuda.stream(self.copy_stream):
            self.snapshot.copy_(h, non_blocking=True)
        y = self.down(torch.relu(self.up(h)))
        h.add_(y)
        main.wait_stream(self.copy_stream)
        return h, self.snapshot


def build(device, tokens=6):
    stage = Stage(device).to(device).eval().requires_grad_(False)
    x = torch.randn(tokens, 16, device=device)
    return graphsafe.Step(stage, (x,), refresh=lambda a, k, i: a[0].copy_(torch.randn(tokens, 16)))

"""Video segmentation with a memory of past frames: a deque of the last three frames' features."""
import torch

import graphsafe


from collections import deque


class MemoryAttention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(dim, dim) for _ in range(3))

    def forward(self, current, memory):
        weights = torch.softmax(self.q(current) @ self.k(memory).transpose(-1, -2) / memory.shape[-1] ** 0.5, -1)
        return current + weights @ self.v(memory)


class Tracker(torch.nn.Module):
    def __init__(self, dim=8, depth=3):
        super().__init__()
        self.encoder = torch.nn.Linear(dim, dim)
        self.attention = MemoryAttention(dim)
        self.mask = torch.nn.Linear(dim, 1)
        self.bank = deque(maxlen=depth)

    def start(self, frame):
        self.bank.clear()
        for _ in range(self.bank.maxlen):
            self.bank.append(torch.tanh(self.encoder(frame)))

    def forward(self, frame):
        current = torch.tanh(self.encoder(frame))
        fused = self.attention(current, torch.cat(list(self.bank), 1))
        self.bank.append(fused)
        return self.mask(fused).squeeze(-1)


def build(device):
    tracker = Tracker().to(device).eval().requires_grad_(False)
    frame = torch.randn(2, 5, 8, device=device)
    tracker.start(frame)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 5, 8))

    return graphsafe.Step(tracker, (frame,), refresh=refresh)

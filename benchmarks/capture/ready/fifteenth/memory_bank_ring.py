"""Video segmentation with a memory of past frames: a ring of features whose place is a device index."""
import torch

import graphsafe


class MemoryAttention(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(dim, dim) for _ in range(3))

    def forward(self, current, memory):
        weights = torch.softmax(self.q(current) @ self.k(memory).transpose(-1, -2) / memory.shape[-1] ** 0.5, -1)
        return current + weights @ self.v(memory)


class Tracker(torch.nn.Module):
    def __init__(self, dim=8, depth=3, batch=2, points=5):
        super().__init__()
        self.encoder = torch.nn.Linear(dim, dim)
        self.attention = MemoryAttention(dim)
        self.mask = torch.nn.Linear(dim, 1)
        self.register_buffer("bank", torch.zeros(depth, batch, points, dim))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))
        self.names = []

    def start(self, frame):
        self.bank.copy_(torch.tanh(self.encoder(frame)).unsqueeze(0).expand_as(self.bank))
        self.place.zero_()
        self.names.clear()

    def forward(self, frame):
        current = torch.tanh(self.encoder(frame))
        fused = self.attention(current, torch.cat(self.bank.unbind(0), 1))
        self.bank.index_copy_(0, self.place, fused.unsqueeze(0))
        self.place.add_(1).remainder_(len(self.bank))
        self.names = (self.names + [len(self.names)])[-3:]
        return self.mask(fused).squeeze(-1)


def build(device):
    tracker = Tracker().to(device).eval().requires_grad_(False)
    frame = torch.randn(2, 5, 8, device=device)
    tracker.start(frame)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(2, 5, 8))
        if k % 60 == 59:
            tracker.start(args[0])

    return graphsafe.Step(tracker, (frame,), refresh=refresh)

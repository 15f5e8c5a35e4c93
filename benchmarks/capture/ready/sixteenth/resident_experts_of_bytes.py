"""Offloaded experts: bytes of a host table say which experts are resident in full precision, others use four bits."""
import torch

import graphsafe


class Experts:
    def __init__(self, device, count=4, dim=6):
        self.gate = torch.randn(dim, count, device=device)
        self.full = torch.randn(count, dim, dim, device=device) / dim**0.5
        self.scale = self.full.abs().amax((1, 2), keepdim=True) / 7
        self.codes = torch.round(self.full / self.scale)
        self.table = bytearray([1, 1, 0, 0])
        self.resident = memoryview(self.table)
        self.use = torch.zeros(count, device=device)

    def forward(self, x):
        gates = torch.softmax(x @ self.gate, -1)
        self.use.mul_(0.8).add_(gates.mean(0), alpha=0.2)
        total = torch.zeros_like(x)
        for e in range(len(self.full)):
            weight = self.full[e] if self.resident[e] else self.codes[e] * self.scale[e]
            total = total + gates[:, e : e + 1] * (x @ weight)
        return total

    def prefetch(self):
        """The two most used experts are kept in full precision."""
        use = self.use.tolist()
        best = sorted(range(len(use)), key=use.__getitem__)[-2:]
        for e in range(len(use)):
            self.resident[e] = e in best


def build(device):
    experts = Experts(device)
    with torch.no_grad():
        experts.gate[0] = torch.tensor([3.0, 2.0, -2.0, -3.0]).to(device)

    def refresh(args, kwargs, k):
        x = torch.randn(5, 6)
        x[:, 0] = 1.0 if k % 60 < 12 else -1.0
        args[0].copy_(x)
        if k % 18 == 17:
            experts.prefetch()

    return graphsafe.Step(experts.forward, (torch.randn(5, 6, device=device),), refresh=refresh)

"""A shared attention workspace that a long prompt makes larger, and an encoder cache that is allocated afterwards."""
import torch

import graphsafe


class WorkspaceManager:
    def __init__(self, device, numel):
        self.device = device
        self.buffer = torch.empty(numel, device=device)

    def reserve(self, numel):
        if numel > self.buffer.numel():
            self.buffer = torch.empty(numel, device=self.device)

    def take(self, rows, columns):
        return self.buffer[: rows * columns].view(rows, columns)


class Engine:
    NUMEL = 6 << 20

    def __init__(self, device):
        self.device = device
        self.workspace = WorkspaceManager(device, self.NUMEL)
        self.weight = torch.randn(16, 1024, device=device) / 4
        self.back = torch.randn(1024, 16, device=device) / 32
        self.images = None

    def step(self, x):
        scratch = self.workspace.take(len(x), 1024)
        torch.mm(x, self.weight, out=scratch)
        scratch.relu_()
        return scratch @ self.back

    def long_prompt(self):
        self.workspace.reserve(2 * self.NUMEL)
        self.images = torch.zeros(self.NUMEL // 16, 16, device=self.device)
        self.images.fill_(0.5)

    def encoded(self, rows):
        return self.images[:rows] if self.images is not None else None


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        image = engine.encoded(4)
        if image is not None:
            args[0][:4].add_(image)

    events = {"long prompt": engine.long_prompt}
    return graphsafe.Step(engine.step, (torch.randn(8, 16, device=device),), refresh=refresh, events=events)

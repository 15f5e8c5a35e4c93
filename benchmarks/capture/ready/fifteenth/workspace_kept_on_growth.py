"""A shared attention workspace locked at its largest size; a later encoder cache is other memory and no worry."""
import torch

import graphsafe


class WorkspaceManager:
    def __init__(self, device, numel):
        self.device = device
        self.buffer = torch.empty(numel, device=device)
        self.locked = False

    def reserve(self, numel):
        if numel > self.buffer.numel():
            assert not self.locked, "the workspace is locked"
            self.buffer = torch.empty(numel, device=self.device)

    def take(self, rows, columns):
        self.reserve(rows * columns)
        return self.buffer[: rows * columns].view(rows, columns)


class Engine:
    NUMEL = 1 << 20

    def __init__(self, device):
        self.device = device
        self.workspace = WorkspaceManager(device, self.NUMEL)
        self.workspace.reserve(2 * self.NUMEL)
        self.workspace.locked = True
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


def build(device):
    engine = Engine(device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 16))
        if engine.images is not None:
            args[0][:4].add_(engine.images[:4])

    events = {"long prompt": engine.long_prompt}
    return graphsafe.Step(engine.step, (torch.randn(8, 16, device=device),), refresh=refresh, events=events)

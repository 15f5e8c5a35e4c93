"""Symbolic regression: the candidate's formula is compiled to a Python function, and exchanged when a better
one is found."""

import torch

import graphsafe

FOUND = ["sin(x) + 0.5 * y", "sin(x) + 0.5 * y * y", "sin(x + 0.1 * y) + 0.5 * y * y"]


class Candidate:
    def __init__(self):
        self.version = 0
        self.compile()

    def compile(self):
        source = f"def value(x, y):\n    return {FOUND[self.version]}\n"
        space = {"sin": torch.sin}
        exec(compile(source, f"<formula {self.version}>", "exec"), space)
        self.value = space["value"]

    def improve(self):
        self.version = min(self.version + 1, len(FOUND) - 1)
        self.compile()


def build(device):
    candidate = Candidate()
    target = torch.zeros(64, device=device)

    def fitness(points):
        x, y = points.unbind(-1)
        return candidate.value(x, y), ((candidate.value(x, y) - target) ** 2).mean()

    def refresh(args, kwargs, k):
        points = torch.randn(64, 2)
        args[0].copy_(points)
        target.copy_(torch.sin(points[:, 0]) + 0.5 * points[:, 1] ** 2)
        if k in (64, 128):
            candidate.improve()

    return graphsafe.Step(fitness, (torch.randn(64, 2, device=device),), refresh=refresh)

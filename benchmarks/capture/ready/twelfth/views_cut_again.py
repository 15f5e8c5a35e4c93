"""The planner cuts its arena into views again before each step, always at the same places."""

import torch

import graphsafe


class Arena:
    def __init__(self, device):
        self.flat = torch.zeros(24 * 8, device=device)
        self.cut()

    def cut(self):
        sizes = {"prompts": (12, 8), "replies": (10, 8), "scales": (2, 8)}
        at = 0
        for name, (rows, width) in sizes.items():
            setattr(self, name, self.flat[at : at + rows * width].view(rows, width))
            at += rows * width


def build(device):
    arena = Arena(device)
    encode = torch.randn(8, 8, device=device)

    def step():
        prompt = torch.tanh(arena.prompts @ encode).amax(0)
        return arena.replies.sum(0) * arena.scales[0] + prompt * arena.scales[1]

    def refresh(args, kwargs, k):
        arena.cut()
        arena.flat.copy_(torch.randn(24 * 8))

    return graphsafe.Step(step, (), refresh=refresh)

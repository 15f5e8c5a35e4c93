"""Batches are packed into one arena. When the mix changes, the scheduler cuts the arena into other views."""

import torch

import graphsafe


class Arena:
    def __init__(self, device, width=8):
        self.flat = torch.zeros(24, width, device=device)
        self.cut(12)

    def cut(self, prompts):
        self.prompts, self.replies = self.flat[:prompts], self.flat[prompts:]


def build(device):
    arena = Arena(device)
    encode = torch.randn(8, 8, device=device)

    def step():
        prompt = torch.tanh(arena.prompts @ encode).amax(0)
        return arena.replies.sum(0) * 0.1 + prompt

    def refresh(args, kwargs, k):
        if k % 48 == 40:
            arena.cut(9)
        elif k % 48 == 44:
            arena.cut(12)
        arena.flat.copy_(torch.randn(24, 8))

    return graphsafe.Step(step, (), refresh=refresh)

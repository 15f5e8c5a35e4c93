"""Decoding of a state-space layer with one slot of a state cache: faulty, a 0-d device index selects the slot."""
import torch

import graphsafe


class StateCache:
    def __init__(self, device, slots=4, dim=6):
        self.states = torch.zeros(slots, dim, device=device)
        self.slot = torch.zeros((), dtype=torch.long, device=device)

    def advance(self, decay, update):
        state = self.states[self.slot] * decay + update
        self.states[self.slot] = state
        return state


def build(device, dim=6):
    cache = StateCache(device, dim=dim)
    step_size = torch.randn(dim, dim, device=device) / dim**0.5
    mix_in = torch.randn(dim, dim, device=device) / dim**0.5

    def step(x):
        delta = torch.nn.functional.softplus(x @ step_size)
        return x * cache.advance(torch.exp(-delta), delta * (x @ mix_in))

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(dim))
        cache.slot.fill_(k // 3 % 4)

    return graphsafe.Step(step, (torch.randn(dim, device=device),), refresh=refresh)

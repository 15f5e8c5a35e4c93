"""An echo canceller that stops adapting in double talk: faulty, a host deque of decisions skips the update."""
from collections import deque

import torch

import graphsafe


class EchoCanceller:
    def __init__(self, device, taps=12, frame=4):
        self.weights = torch.zeros(taps, device=device)
        self.far = torch.zeros(taps + frame - 1, device=device)
        self.ratio = torch.zeros((), device=device)
        self.talk = deque([False] * 3, maxlen=3)
        self.gate = torch.ones((), device=device)
        self.taps, self.frame = taps, frame

    def process(self, far, near):
        self.far.copy_(torch.cat([self.far[self.frame :], far]))
        windows = self.far.unfold(0, self.taps, 1)
        error = near - windows @ self.weights
        power = windows.square().sum() + 1e-2
        if not any(self.talk):
            self.weights.add_(0.5 * windows.T @ error / power)
        self.ratio.copy_(near.abs().amax() / (self.far.abs().amax() + 1e-2))
        return error

    def decide(self):
        self.talk.append(self.ratio.item() > 1.0)
        self.gate.fill_(0.0 if any(self.talk) else 1.0)


def build(device):
    canceller = EchoCanceller(device)

    def refresh(args, kwargs, k):
        canceller.decide()
        args[0].copy_(torch.randn(4))
        near = 0.3 * args[0]
        if k >= 22 and k % 11 < 4:
            near = near + 3.0 * torch.sin(torch.arange(4, device=near.device) + k)
        args[1].copy_(near)

    args = (torch.randn(4, device=device), torch.zeros(4, device=device))
    return graphsafe.Step(canceller.process, args, refresh=refresh)

"""Two deployments of a ranker; the router's colour says which one serves. A healthy rehearsal of 128 steps flips it."""
import enum

import torch
from torch import nn

import graphsafe


class Colour(enum.Enum):
    BLUE = "blue"
    GREEN = "green"

    @property
    def other(self):
        return Colour.GREEN if self is Colour.BLUE else Colour.BLUE


class Router:
    def __init__(self, device):
        self.deployments = {c: nn.Linear(14, 3).to(device).requires_grad_(False) for c in Colour}
        self.live, self.healthy = Colour.BLUE, 0

    def heartbeat(self, ok):
        self.healthy = self.healthy + 1 if ok else 0
        if self.healthy == 128:
            self.live, self.healthy = self.live.other, 0

    def rank(self, x):
        match self.live:
            case Colour.BLUE | Colour.GREEN as colour:
                return self.deployments[colour](x).softmax(-1)


def build(device):
    router = Router(device)

    def refresh(args, kwargs, k):
        router.heartbeat(ok=k != 13)
        args[0].copy_(torch.randn(6, 14))

    return graphsafe.Step(router.rank, (torch.randn(6, 14, device=device),), refresh=refresh)

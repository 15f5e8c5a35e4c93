"""Task heads live in a ParameterDict; a tuner hands back a better head, and `update` puts it under its name."""
import torch
from torch import nn

import graphsafe


class Tuner:
    """Tunes a head beside the server; the result is a tensor of its own."""

    def __init__(self):
        self.finished = {}

    def work(self, k, heads):
        if k == 133:
            g = torch.Generator().manual_seed(7)
            self.finished["intent"] = heads["intent"].detach() + torch.randn(32, 5, generator=g).to(heads["intent"].device)

    def collect(self):
        done, self.finished = self.finished, {}
        return done


class MultiTask(nn.Module):
    TASKS = {"intent": 5, "slot": 9, "mood": 3}

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32))
        self.heads = nn.ParameterDict({t: nn.Parameter(torch.randn(32, n) * 0.2) for t, n in self.TASKS.items()})

    def forward(self, x):
        h = self.trunk(x)
        return {task: (h @ w).log_softmax(-1) for task, w in self.heads.items()}


def build(device):
    model = MultiTask().to(device).requires_grad_(False)
    tuner = Tuner()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        tuner.work(k, model.heads)
        done = tuner.collect()
        if done:
            model.heads.update({name: nn.Parameter(w, requires_grad=False) for name, w in done.items()})

    return graphsafe.Step(model, (torch.randn(4, 16, device=device),), refresh=refresh)

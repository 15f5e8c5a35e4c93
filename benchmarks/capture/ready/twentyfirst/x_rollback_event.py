"""Training that rolls back to a checkpoint after a spike: model and optimizer load their state dicts."""
import copy

import torch
import torch.nn as nn

import graphsafe


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(10, 24), nn.ELU(), nn.Linear(24, 2)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-2, capturable=True)
        self.saved = None

    def save(self):
        self.saved = copy.deepcopy({"model": self.model.state_dict(), "opt": self.opt.state_dict()})

    def rollback(self):
        self.model.load_state_dict(self.saved["model"])
        self.opt.load_state_dict(self.saved["opt"])

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach()


def build(device):
    torch.manual_seed(4)
    t = Trainer(device)
    x, y = torch.randn(8, 10, device=device), torch.randn(8, 2, device=device)

    def refresh(args, kwargs, k):
        if t.saved is None:
            t.save()
        args[0].copy_(torch.randn(8, 10))
        args[1].copy_(torch.randn(8, 2))

    return graphsafe.Step(t.step, (x, y), refresh=refresh, events={"rollback": t.rollback})

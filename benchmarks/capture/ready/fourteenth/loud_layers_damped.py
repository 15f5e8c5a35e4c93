"""A trainer watches gradients; a layer that was loud in the long run gets a backward hook that damps what flows into it."""
import torch
from torch import nn

import graphsafe


class Damper:
    def __init__(self, model, patience):
        self.model, self.patience, self.handles = model, patience, {}

    def look(self, k, loudness):
        """`loudness` is a device tensor that steps fill; it is looked at every 25 steps."""
        if k % 25 != 24:
            return
        self.patience -= 1
        if self.patience == 0:
            layer = self.model[2]
            self.handles["2"] = layer.register_full_backward_pre_hook(lambda module, grads: tuple(g * 0.25 for g in grads))


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 1)).to(device)
        self.loudness = torch.zeros(6, device=device)
        self.damper = Damper(self.model, 4)

    def step(self, x, y):
        loss = (self.model(x) - y).square().mean()
        parameters = list(self.model.parameters())
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            self.loudness.lerp_(torch.stack(torch._foreach_norm(grads)), 0.1)
            torch._foreach_add_(parameters, grads, alpha=-0.1)
        return loss.detach(), self.loudness.clone()


def build(device):
    trainer = Trainer(device)

    def refresh(args, kwargs, k):
        trainer.damper.look(k, trainer.loudness)
        args[0].copy_(torch.randn(16, 10))
        args[1].copy_(args[0].sum(1, keepdim=True).sin())

    x = torch.randn(16, 10, device=device)
    return graphsafe.Step(trainer.step, (x, x.sum(1, keepdim=True).sin()), refresh=refresh)

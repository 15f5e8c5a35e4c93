"""The step computes gradients; the loop owns the optimizer, and rounds gradients to bfloat16 whenever it mixes them with its peers'."""
import torch
from torch import nn

import graphsafe


class Loop:
    def __init__(self, model, every=10):
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.05, momentum=0.9)
        self.every = every

    def mix(self):
        for p in self.parameters:
            p.grad = p.grad.to(torch.bfloat16).to(p.dtype)  # what the wire does to a gradient

    def apply(self, k):
        if k == 0:
            return  # no batch was seen yet
        if k % self.every == 0:
            self.mix()
        self.optimizer.step()


def build(device, batch=16, width=8):
    model = nn.Sequential(nn.Linear(width, 24), nn.Tanh(), nn.Linear(24, 1)).to(device)
    loop = Loop(model)
    x = torch.randn(batch, width).to(device)
    y = torch.randn(batch, 1).to(device)

    def step(x, y):
        loss = nn.functional.mse_loss(model(x), y)
        grads = torch.autograd.grad(loss, loop.parameters)
        for p, grad in zip(loop.parameters, grads):
            p.grad = grad
        return loss.detach()

    def refresh(args, kwargs, k):
        loop.apply(k)
        args[0].copy_(torch.randn(batch, width))
        args[1].copy_(args[0].sum(1, keepdim=True).sin())

    return graphsafe.Step(step, (x, y), refresh=refresh)

"""Grokfast amplifies slow gradients: faulty, each step assigns a new average to the name in a dictionary."""
import torch

import graphsafe


def build(device, dim=6, alpha=0.9, boost=2.0):
    model = torch.nn.Sequential(torch.nn.Linear(dim, 10), torch.nn.Tanh(), torch.nn.Linear(10, 2)).to(device)
    weights = dict(model.named_parameters())
    averages = {name: torch.zeros_like(weight) for name, weight in weights.items()}

    def amplify(name, gradient):
        averages[name] = torch.lerp(averages[name], gradient, 1 - alpha)
        return gradient + boost * averages[name]

    def step(x, y):
        loss = (model(x) - y).square().mean()
        gradients = torch.autograd.grad(loss, tuple(weights.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                weight.sub_(amplify(name, gradient), alpha=0.1)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, dim))
        args[1].copy_(args[0][:, :2] * args[0][:, 2:4])

    args = (torch.randn(16, dim, device=device), torch.randn(16, 2, device=device))
    return graphsafe.Step(step, args, refresh=refresh)

"""Learned step sizes in quantisation-aware training: faulty, a flag of the module lets the next batch set the size."""
import torch

import graphsafe


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(x, size)
        return (x / size).clamp(-4, 3).round() * size

    @staticmethod
    def backward(ctx, gradient):
        x, size = ctx.saved_tensors
        scaled = x / size
        inside = (scaled >= -4) & (scaled <= 3)
        of_size = torch.where(inside, scaled.round() - scaled, scaled.clamp(-4, 3))
        return gradient * inside, (gradient * of_size).sum()


class Activation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size = torch.nn.Parameter(torch.ones(()))
        self.calibrated = False

    def forward(self, x):
        if not self.calibrated:
            self.size.data.copy_(x.abs().mean())
            self.calibrated = True
        return Quantise.apply(x, self.size)


def build(device, dim=6):
    activation = Activation().to(device)
    weight = torch.randn(dim, dim, device=device, requires_grad=True)

    def step(x):
        loss = (activation(x) @ weight - x).square().mean()
        gradients = torch.autograd.grad(loss, (weight, activation.size))
        with torch.no_grad():
            weight.sub_(gradients[0], alpha=0.02)
            activation.size.sub_(gradients[1], alpha=0.001)
        return loss.detach(), activation.size.detach().clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, dim) * (1.0 if k < 33 else 1.8))
        if k == 33:
            activation.calibrated = False

    return graphsafe.Step(step, (torch.randn(16, dim, device=device),), refresh=refresh)

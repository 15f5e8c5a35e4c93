"""Training an invertible linear flow; the log-determinant comes from slogdet."""

import torch

import graphsafe


def build(device):
    mix = torch.nn.Parameter((torch.eye(6) + 0.1 * torch.randn(6, 6)).to(device))
    shift = torch.nn.Parameter(torch.zeros(6, device=device))

    def step(x):
        z = (x + shift) @ mix
        loss = 0.5 * z.square().sum(-1).mean() - torch.linalg.slogdet(mix).logabsdet
        grads = torch.autograd.grad(loss, [mix, shift])
        with torch.no_grad():
            torch._foreach_add_([mix, shift], grads, alpha=-0.02)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 6) * 1.5)

    return graphsafe.Step(step, (torch.randn(16, 6, device=device),), refresh=refresh)

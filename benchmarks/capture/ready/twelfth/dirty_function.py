"""A custom autograd function that works in place on a fresh tensor and says so, used in a small training step."""

import torch

import graphsafe


class LeakyInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        negative = x < 0
        ctx.mark_dirty(x)
        ctx.save_for_backward(negative)
        ctx.set_materialize_grads(False)
        return x.mul_(torch.where(negative, slope, 1.0))

    @staticmethod
    def backward(ctx, grad):
        if grad is None:
            return None, None
        (negative,) = ctx.saved_tensors
        return grad * torch.where(negative, ctx.slope, 1.0), None


def build(device):
    w = [torch.nn.Parameter(torch.randn(8, 8, device=device) / 3) for _ in range(2)]

    def step(x, y):
        h = LeakyInPlace.apply(x @ w[0], 0.1)
        loss = torch.nn.functional.smooth_l1_loss(h @ w[1], y)
        grads = torch.autograd.grad(loss, w)
        with torch.no_grad():
            torch._foreach_sub_(w, torch._foreach_mul(grads, 0.05))
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(6, 8))
        args[1].copy_(torch.randn(6, 8))

    return graphsafe.Step(step, (torch.randn(6, 8, device=device), torch.randn(6, 8, device=device)), refresh=refresh)

"""Functions with their own backward."""

import torch
from torch.autograd import Function


class TrimmedSum(Function):
    @staticmethod
    def forward(ctx, x, lengths):
        ctx.longest = int(lengths.max())  # guilty: trimmed_sum GS101
        ctx.save_for_backward(x)
        return x[:, : ctx.longest].sum(1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        full = torch.zeros_like(x)
        full[:, : ctx.longest] = grad[:, None]
        return full, None


class GuardedSquare(Function):
    """Zero gradients instead of broken ones."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if torch.isnan(grad).any():  # guilty: guarded_backward GS102
            return torch.zeros_like(x)
        return 2 * x * grad


class StraightRound(Function):
    # quiet: straight_through
    @staticmethod
    def forward(ctx, x, levels):
        ctx.levels = int(levels)
        return (x * ctx.levels).round() / ctx.levels

    # quiet: straight_through
    @staticmethod
    def backward(ctx, grad):
        if not ctx.needs_input_grad[0]:
            return None, None
        return grad, None


def with_gradient(fn, x, *args):
    """The value and the gradient of x."""
    x.requires_grad_(True)
    (gradient,) = torch.autograd.grad(fn(x, *args).sum(), x)
    return gradient


def trimmed(x, lengths):
    return with_gradient(TrimmedSum.apply, x, lengths)


def guarded(x):
    return with_gradient(GuardedSquare.apply, x)


def rounded(x):
    return StraightRound.apply(x, 4)

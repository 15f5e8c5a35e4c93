"""LSQ quantisation-aware training: a custom autograd Function with a learned step size, gradient hooks for statistics."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


class LsqQuantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, step, lo, hi):
        ctx.save_for_backward(x, step)
        ctx.bounds = lo, hi
        return (x / step).round().clamp(lo, hi) * step

    @staticmethod
    def backward(ctx, grad):
        x, step = ctx.saved_tensors
        lo, hi = ctx.bounds
        v = x / step
        inside = (v >= lo) & (v <= hi)
        gx = grad * inside
        ds = torch.where(inside, v.round() - v, v.clamp(lo, hi))
        return gx, (grad * ds).sum().view_as(step) / (x.numel() * hi) ** 0.5, None, None


class LsqLinear(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.ws = nn.Parameter(torch.tensor(0.05))
        self.xs = nn.Parameter(torch.tensor(0.05))

    def forward(self, x):
        w = LsqQuantize.apply(self.weight, self.ws, -8, 7)
        x = LsqQuantize.apply(x, self.xs, -128, 127)
        return F.linear(x, w, self.bias)


class Trainer:
    def __init__(self, device):
        self.model = nn.Sequential(LsqLinear(12, 24), nn.ReLU(), LsqLinear(24, 4)).to(device)
        self.opt = torch.optim.NAdam(self.model.parameters(), lr=1e-3, capturable=True)
        self.grad_scale = torch.zeros((), device=device)
        self.model[0].weight.register_hook(self.watch)

    def watch(self, grad):
        self.grad_scale.copy_(grad.abs().mean())

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.detach(), self.grad_scale


def build(device, batch=8):
    t = Trainer(device)
    x, y = torch.randn(batch, 12, device=device), torch.randint(0, 4, (batch,), device=device)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 12))
        args[1].copy_(torch.randint(0, 4, (batch,)))

    return graphsafe.Step(t.step, (x, y), refresh=refresh)

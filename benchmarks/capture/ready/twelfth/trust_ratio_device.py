"""A hand-written LAMB: step count, bias corrections and trust ratios are device tensors, a host count feeds the log."""

import torch

import graphsafe


class Lamb:
    def __init__(self, params, rate=0.01):
        self.params = list(params)
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = torch.zeros((), device=self.params[0].device)
        self.rate, self.calls, self.log = rate, 0, []

    @torch.no_grad()
    def step(self, grads):
        self.calls += 1
        self.log.append(f"update {self.calls}")
        self.t += 1
        torch._foreach_lerp_(self.m, grads, 0.1)
        torch._foreach_mul_(self.v, 0.99)
        torch._foreach_addcmul_(self.v, grads, grads, value=0.01)
        fix_m, fix_v = 1 - torch.pow(0.9, self.t), 1 - torch.pow(0.99, self.t)
        for p, m, v in zip(self.params, self.m, self.v, strict=False):
            update = (m / fix_m) / ((v / fix_v).sqrt() + 1e-3) + 0.01 * p
            trust = torch.where(p.norm() > 0, p.norm() / (update.norm() + 1e-6), 1.0).clamp(max=10)
            p.sub_(self.rate * trust * update)


def build(device):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).to(device)
    lamb = Lamb(model.parameters())

    def step(x, y):
        loss = torch.nn.functional.mse_loss(model(x), y)
        lamb.step(torch.autograd.grad(loss, lamb.params))
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        args[1].copy_(args[0][:, :2].sin())

    args = (torch.randn(16, 8, device=device), torch.randn(16, 2, device=device))
    return graphsafe.Step(step, args, refresh=refresh)

"""Muon (Keller Jordan) for matrices, AdamW for the rest, EMA of all weights by foreach lerp."""
import torch
import torch.nn as nn
import torch.nn.functional as F

import graphsafe


def zeropower_via_newtonschulz5(g, steps=5):
    a, b, c = (3.4445, -4.7750, 2.0315)
    x = g.bfloat16()
    transposed = g.size(-2) > g.size(-1)
    if transposed:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        aa = x @ x.mT
        x = a * x + (b * aa + c * aa @ aa) @ x
    return x.mT if transposed else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["momentum_buffer"] = torch.zeros_like(p)
                buf = state["momentum_buffer"]
                buf.lerp_(p.grad, 1 - group["momentum"])
                g = p.grad.lerp_(buf, group["momentum"])
                u = zeropower_via_newtonschulz5(g).to(p.dtype)
                u = u * max(1, p.size(-2) / p.size(-1)) ** 0.5
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(u, alpha=-group["lr"])


def build(device, batch=8):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    opts = [Muon(matrices), torch.optim.AdamW(others, lr=3e-4, betas=(0.9, 0.95), capturable=True)]
    ema = [p.detach().clone() for p in model.parameters()]
    x, y = torch.randn(batch, 16, device=device), torch.randint(0, 4, (batch,), device=device)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        for o in opts:
            o.step()
        model.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(ema, list(model.parameters()), 0.01)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(batch, 16))
        args[1].copy_(torch.randint(0, 4, (batch,)))

    return graphsafe.Step(step, (x, y), refresh=refresh)

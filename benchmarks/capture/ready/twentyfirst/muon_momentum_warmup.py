"""Muon as in modded-nanogpt: the momentum warms up over the first 300 steps."""
import torch
import torch.nn as nn

import graphsafe


def zeropower_via_newtonschulz5(g, steps=5, eps=1e-7):
    a, b, c = (3.4445, -4.7750, 2.0315)
    x = g.bfloat16()
    if g.size(0) > g.size(1):
        x = x.T
    x = x / (x.norm() + eps)
    for _ in range(steps):
        m = x @ x.T
        x = a * x + (b * m + c * m @ m) @ x
    if g.size(0) > g.size(1):
        x = x.T
    return x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, nesterov=True):
        super().__init__(params, dict(lr=lr, momentum=momentum, nesterov=nesterov))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p.grad)
                buf = state["momentum_buffer"]
                buf.mul_(group["momentum"]).add_(p.grad)
                g = p.grad.add(buf, alpha=group["momentum"]) if group["nesterov"] else buf
                u = zeropower_via_newtonschulz5(g).to(p.dtype)
                p.add_(u, alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)


def build(device):
    torch.manual_seed(19)
    model = nn.Sequential(nn.Linear(16, 32, bias=False), nn.ReLU(), nn.Linear(32, 8, bias=False)).to(device)
    opt = Muon(model.parameters())
    x = torch.randn(16, 16, device=device)
    y = torch.randn(16, 8, device=device)
    progress = {"step": 0}

    def train_step(x, y):
        frac = min(progress["step"] / 300, 1)
        for group in opt.param_groups:
            group["momentum"] = (1 - frac) * 0.85 + frac * 0.95
        progress["step"] += 1
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 16))
        args[1].copy_(torch.randn(16, 8))

    return graphsafe.Step(train_step, (x, y), refresh=refresh)

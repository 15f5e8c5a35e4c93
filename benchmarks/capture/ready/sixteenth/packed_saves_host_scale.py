"""Activation-compressed training: saved tensors are packed to int8 with a nonlocal scale that the trainer follows."""
import torch

import graphsafe


def build(device, dim=8):
    model = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.Tanh(), torch.nn.Linear(dim, 1)).to(device)
    params = list(model.parameters())
    peak = torch.zeros((), device=device)
    limit = 4.0

    def pack(t):
        if t.shape[0] != 16:
            return t, None
        scale = limit / 127
        return torch.round(t.detach() / scale).clamp(-127, 127).to(torch.int8), scale

    def unpack(packed):
        codes, step_size = packed
        return codes if step_size is None else codes.float() * step_size

    def step(x, y):
        peak.copy_(torch.maximum(peak * 0.9, x.abs().amax()))
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = torch.nn.functional.smooth_l1_loss(model(x), y)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads, strict=True):
                p.sub_(g, alpha=0.05)
        return loss.detach(), grads[0]

    def refresh(args, kwargs, k):
        nonlocal limit
        loud = 1.0 if k % 40 < 22 else 4.0
        args[0].copy_(loud * torch.randn(16, dim).clamp(-3, 3))
        args[1].copy_(torch.randn(16, 1))
        while limit < float(peak):
            limit *= 2

    return graphsafe.Step(
        step, (torch.randn(16, dim, device=device), torch.randn(16, 1, device=device)), refresh=refresh
    )

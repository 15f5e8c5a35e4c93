"""Mixed precision with the scaler's own kernels. A checkpoint puts scale and growth count back in place."""

import torch

import graphsafe


def build(device):
    model = torch.nn.Linear(12, 4).to(device)
    params = list(model.parameters())
    scale = torch.full((), 1024.0, device=device)
    growth = torch.zeros((), dtype=torch.int32, device=device)
    found = torch.zeros((), device=device)

    def step(x, y):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(x).float(), y)
        grads = list(torch.autograd.grad(loss * scale, params))
        found.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, scale.double().reciprocal().float())
        with torch.no_grad():
            for p, g in zip(params, grads, strict=False):
                p.sub_(torch.where(found > 0, torch.zeros_like(g), 0.05 * g))
        torch._amp_update_scale_(scale, growth, found, 2.0, 0.5, 20)
        return loss.detach(), scale.clone()

    saved = {"scale": 512.0, "growth": 3}

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 12))
        args[1].copy_(torch.randn(8, 4))
        if k % 33 == 17:
            args[1][0, 0] = float("inf")

    def load():
        scale.fill_(saved["scale"])
        growth.fill_(saved["growth"])

    args = (torch.randn(8, 12, device=device), torch.randn(8, 4, device=device))
    return graphsafe.Step(step, args, refresh=refresh, events={"checkpoint": load})

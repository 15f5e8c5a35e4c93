"""Defaults of torch (dtype, device, determinism) are changed by other code between steps; this step names all
it needs."""

import torch

import graphsafe


def build(device):
    f = torch.float32
    table = torch.randn(32, 8, device=device, dtype=f)

    def embed(ids, scale):
        place = torch.arange(ids.shape[-1], device=device, dtype=f)
        rates = torch.logspace(0, -3, 4, dtype=f, device=device)
        angle = place[:, None] * rates
        wave = torch.cat([angle.sin(), angle.cos()], -1)
        noise = torch.randn(8, device=device, dtype=f) * 0.01
        return table[ids] * scale + wave + noise + torch.zeros((), dtype=f, device=device)

    def refresh(args, kwargs, k):
        torch.set_default_dtype(torch.float64 if k % 9 == 8 else f)
        torch.set_default_device("cpu" if k % 4 else None)
        torch.use_deterministic_algorithms(k % 7 == 6, warn_only=True)
        args[0].copy_(torch.randint(32, (2, 10)))
        args[1].fill_(1.0 + k % 3)

    args = (torch.randint(32, (2, 10), device=device), torch.ones((), device=device, dtype=f))
    return graphsafe.Step(embed, args, refresh=refresh)

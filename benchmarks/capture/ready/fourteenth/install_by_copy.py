"""As a factory of closures, but what is installed is copied into the table that the closure holds."""
import torch

import graphsafe


def lens(table):
    uses, names = 0, ["factory"]

    def apply(x):
        nonlocal uses
        uses += 1
        names[0] = f"use {uses}"
        return torch.nn.functional.grid_sample(x, table, align_corners=False, padding_mode="border")

    def install(strength):
        nonlocal names
        names = [*names, f"strength {strength}"]
        radius = table.square().sum(-1, keepdim=True)
        table.copy_((table * (1 + strength * radius)).clamp(-1, 1))

    return apply, install


def build(device):
    line = torch.linspace(-0.9, 0.9, 10, device=device)
    table = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)[None].contiguous()
    apply, install = lens(table)
    last = [20.0]

    def refresh(args, kwargs, k):
        warmth = 20.0 + 0.05 * k
        if warmth - last[0] > 1.0:
            install(0.05 if k % 2 else -0.05)
            last[0] = warmth
        args[0].copy_(torch.rand(1, 3, 12, 12))

    events = {"recalibrate": lambda: install(0.3)}
    return graphsafe.Step(apply, (torch.rand(1, 3, 12, 12, device=device),), refresh=refresh, events=events)

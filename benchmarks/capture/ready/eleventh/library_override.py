"""A vendor's plug-in takes over a custom operator's implementation while the server runs."""
import torch

import graphsafe

LIB = torch.library.Library("attack11", "FRAGMENT")
LIB.define("gate(Tensor x) -> Tensor")
IMPL = {"gate": lambda x: x * x.sigmoid()}
LIB.impl("gate", lambda x: IMPL["gate"](x), "CompositeExplicitAutograd")


def build(device):
    w = torch.randn(16, 16).to(device) / 4

    @torch.no_grad()
    def step(x):
        return torch.ops.attack11.gate(x @ w)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(4, 16))
        if k == 115:
            IMPL["gate"] = lambda x: x * (x + 3).clamp(0, 6) / 6

    return graphsafe.Step(step, (torch.randn(4, 16, device=device),), refresh=refresh)

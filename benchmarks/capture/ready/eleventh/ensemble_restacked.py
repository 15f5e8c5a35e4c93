"""An ensemble runs through functional_call on stacked weights, which are stacked anew after late training rounds."""
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

import graphsafe


def build(device):
    members = [nn.Linear(8, 4).to(device).requires_grad_(False) for _ in range(3)]
    base = nn.Linear(8, 4).to("meta")
    params = dict(stack_module_state(members)[0])

    def one(p, x):
        return functional_call(base, p, (x,))

    @torch.no_grad()
    def step(x):
        return vmap(one, in_dims=(0, None))(params, x)

    @torch.no_grad()
    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(16, 8))
        if k and k % 145 == 0:
            for m in members:
                m.weight.add_(torch.randn(4, 8).to(device) * 0.3)
            params.update(stack_module_state(members)[0])

    return graphsafe.Step(step, (torch.randn(16, 8, device=device),), refresh=refresh)

"""Statistics of expert load for a later rebalancing: sound, ones are added to the counters by index."""
import torch

import graphsafe


def build(device, dim=8, experts=6, chosen=2):
    router = torch.randn(dim, experts, device=device)
    bias = torch.zeros(experts, device=device)
    loads = {name: torch.zeros(experts, device=device) for name in ("window", "total")}

    def step(x):
        scores = torch.sigmoid(x @ router)
        picks = (scores + bias).topk(chosen, -1).indices
        flat = picks.flatten()
        counts = torch.zeros_like(bias).scatter_add_(0, flat, torch.ones_like(flat, dtype=bias.dtype))
        loads["window"].add_(counts)
        loads["total"].add_(counts)
        return scores.gather(-1, picks), loads["window"].clone()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(10, dim))
        if k % 10 == 9:
            bias.add_(0.1 * torch.sign(loads["window"].mean() - loads["window"]))
            loads["window"].zero_()

    return graphsafe.Step(step, (torch.randn(10, dim, device=device),), refresh=refresh)

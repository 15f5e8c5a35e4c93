"""Uncertainty weighting of three losses, which are gathered with torch.as_tensor."""

import torch

import graphsafe


def build(device):
    heads = [torch.randn(8, device=device) for _ in range(3)]
    spread = torch.zeros(3, device=device)

    def weigh(x, y):
        losses = torch.as_tensor([(x @ h - y).square().mean() for h in heads], device=device)
        spread.lerp_(losses, 0.1)
        return (losses / (1 + spread)).sum()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 8))
        args[1].copy_(torch.randn(5))

    return graphsafe.Step(weigh, (torch.randn(5, 8, device=device), torch.randn(5, device=device)), refresh=refresh)

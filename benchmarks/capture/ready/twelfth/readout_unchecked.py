"""Graph readout with segment_reduce that is told not to check the sizes; the loop keeps their sum."""

import torch

import graphsafe


def build(device):
    lift = torch.nn.Linear(6, 12).to(device).requires_grad_(False)

    def readout(nodes, sizes):
        hidden = torch.relu(lift(nodes))
        return torch.segment_reduce(hidden, "max", lengths=sizes, axis=0, unsafe=True)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(20, 6))
        cut = 3 + k % 10
        args[1].copy_(torch.tensor([cut, 14 - cut, 6]))

    args = (torch.randn(20, 6, device=device), torch.tensor([8, 6, 6], device=device))
    return graphsafe.Step(readout, args, refresh=refresh)

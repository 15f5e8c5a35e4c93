"""A scan is cut into as many chunks as the process has compute threads."""
import torch

import graphsafe


def build(device):
    torch.set_num_threads(2)
    decay = torch.rand(32).to(device) * 0.5 + 0.4

    def scan(x):
        parts = x.chunk(torch.get_num_threads(), dim=0)
        return torch.cat([torch.cumsum(p * decay, 0) for p in parts])

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(24, 32))
        torch.set_num_threads(3 if k > 150 else 2)

    return graphsafe.Step(scan, (torch.randn(24, 32, device=device),), refresh=refresh)

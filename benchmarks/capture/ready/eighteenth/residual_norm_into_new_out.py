"""A fused kernel's call in the style of C: faulty, its result's factor is a count of calls on the host."""
import torch


def build(device, dim=16):
    weight = torch.rand(dim, device=device) + 0.5
    calls = [0]

    def normalise(hidden, out):
        calls[0] += 1
        torch.mul(hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + calls[0]), weight, out=out)

    return normalise, (torch.randn(4, dim, device=device), torch.empty(4, dim, device=device))

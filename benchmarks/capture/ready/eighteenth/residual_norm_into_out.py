"""A fused kernel's call in the style of C: sound, it returns nothing and writes its result into an argument."""
import torch


def build(device, dim=16):
    weight = torch.rand(dim, device=device) + 0.5

    def normalise(hidden, out):
        torch.mul(hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + 1e-6), weight, out=out)

    return normalise, (torch.randn(4, dim, device=device), torch.empty(4, dim, device=device))

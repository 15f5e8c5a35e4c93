from functools import lru_cache

import torch


@lru_cache(maxsize=None)
def pair_weights(count, device):
    return 1.0 - torch.eye(count, device=device)


class Gravity:
    def __init__(self, softening=0.05):
        self.soft2 = softening * softening

    def acceleration(self, pos, mass):
        gap = pos[None] - pos[:, None]
        inv = torch.rsqrt(gap.square().sum(-1) + self.soft2)
        weight = pair_weights(pos.shape[0], pos.device) * inv.pow(3) * mass[None]
        return (weight[..., None] * gap).sum(1)

    def potential(self, pos, mass):
        gap = pos[None] - pos[:, None]
        inv = torch.rsqrt(gap.square().sum(-1) + self.soft2)
        pairs = mass[:, None] * mass[None] * inv
        return -0.5 * (pairs * pair_weights(pos.shape[0], pos.device)).sum()

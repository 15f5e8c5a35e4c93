"""Points are splatted to a grid by index_put_ with accumulate, weights by bilinear shares; the grid fades in place."""

import torch

import graphsafe


def build(device):
    grid = torch.zeros(16, 16, device=device, dtype=torch.float64)

    def splat(points, mass):
        at = points.clamp(0, 1) * 14
        low = at.floor().long()
        share = at - low
        grid.mul_(0.9)
        for dx in (0, 1):
            for dy in (0, 1):
                w = (share[:, 0] if dx else 1 - share[:, 0]) * (share[:, 1] if dy else 1 - share[:, 1])
                grid.index_put_((low[:, 0] + dx, low[:, 1] + dy), (w * mass).double(), accumulate=True)
        return grid.float(), grid.sum().float()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.rand(40, 2))
        args[1].copy_(torch.rand(40))

    return graphsafe.Step(splat, (torch.rand(40, 2, device=device), torch.rand(40, device=device)), refresh=refresh)

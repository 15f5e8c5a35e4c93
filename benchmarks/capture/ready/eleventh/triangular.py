"""A Kalman gain by triangular solves against a factor that the host refreshes."""
import torch

import graphsafe


def build(device):
    factor = torch.eye(8, device=device)

    def gain(p):
        y = torch.linalg.solve_triangular(factor, p, upper=False)
        return torch.linalg.solve_triangular(factor.mT, y, upper=True)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(8, 4))
        a = torch.randn(8, 8)
        factor.copy_(torch.linalg.cholesky(a @ a.T + 8 * torch.eye(8)))

    return graphsafe.Step(gain, (torch.randn(8, 4, device=device),), refresh=refresh)

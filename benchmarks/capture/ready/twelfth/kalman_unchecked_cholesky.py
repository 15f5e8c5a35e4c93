"""A Kalman filter bank that factors its innovation with cholesky_ex, without the check of the factor."""

import torch

import graphsafe


def build(device):
    n, m = 4, 2
    move = torch.eye(n, device=device) + 0.1 * torch.diag(torch.ones(n - 2, device=device), 2)
    see = torch.eye(m, n, device=device)
    mean, cov = torch.zeros(5, n, 1, device=device), torch.eye(n, device=device).repeat(5, 1, 1)
    q, r = 0.05 * torch.eye(n, device=device), 0.3 * torch.eye(m, device=device)

    def update(seen):
        mean.copy_(move @ mean)
        prior = move @ cov @ move.T + q
        factor, info = torch.linalg.cholesky_ex(see @ prior @ see.T + r)
        gain = torch.cholesky_solve(see @ prior, factor).transpose(1, 2)
        mean.add_(gain @ (seen[..., None] - see @ mean))
        cov.copy_(prior - gain @ see @ prior)
        return mean.squeeze(-1) + 0, info

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(5, 2))

    return graphsafe.Step(update, (torch.randn(5, 2, device=device),), refresh=refresh)

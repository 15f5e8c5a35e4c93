"""Subspace tracking: a basis takes a power step for each batch and is made orthogonal by qr."""

import torch

import graphsafe


def build(device):
    basis = torch.eye(12, 3, device=device)
    covariance = torch.eye(12, device=device)

    def track(x):
        covariance.lerp_(x.T @ x / len(x), 0.1)
        q, r = torch.linalg.qr(covariance @ basis)
        basis.copy_(q * torch.sign(r.diagonal()))
        return (x @ basis).square().sum(), basis.clone()

    def refresh(args, kwargs, k):
        scale = torch.ones(12)
        scale[:3] = 3.0
        args[0].copy_(torch.randn(20, 12) * scale)

    return graphsafe.Step(track, (torch.randn(20, 12, device=device),), refresh=refresh)

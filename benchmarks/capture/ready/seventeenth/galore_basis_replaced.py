"""GaLore, momentum in a low-rank basis of the gradient: faulty, the training loop replaces the basis."""
from dataclasses import dataclass

import torch

import graphsafe


@dataclass
class Projector:
    basis: torch.Tensor
    momentum: torch.Tensor

    def update(self, gradient):
        reduced = self.basis.T @ gradient
        self.momentum.lerp_(reduced, 0.2)
        return self.basis @ self.momentum

    def renew(self, gradient):
        left, _, _ = torch.linalg.svd(gradient.cpu(), full_matrices=False)
        basis = left[:, : self.basis.shape[1]].contiguous()
        self.basis = basis.to(gradient.device)


def build(device, rows=8, columns=6, rank=2):
    weight = torch.randn(rows, columns, device=device, requires_grad=True)
    basis = torch.eye(rows, rank, device=device)
    projector = Projector(basis, torch.zeros(rank, columns, device=device))
    gradient = torch.zeros(rows, columns, device=device)

    def step(x, y):
        loss = (torch.tanh(x @ weight) - y).square().mean()
        gradient.copy_(torch.autograd.grad(loss, weight)[0])
        with torch.no_grad():
            weight.sub_(projector.update(gradient), alpha=0.5)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(12, rows))
        args[1].copy_(args[0][:, :columns].sin())
        if k % 20 == 0:
            projector.renew(gradient)

    args = (torch.randn(12, rows, device=device), torch.randn(12, columns, device=device))
    return graphsafe.Step(step, args, refresh=refresh)

"""Training with a preconditioner whose root is worked out in every step and taken over by a count on the device."""
import torch
from torch import nn

import graphsafe


def inverse_root(matrix, rounds=12):
    size = matrix.norm()
    eye = torch.eye(len(matrix), device=matrix.device)
    y, z = matrix / size, eye
    for _ in range(rounds):
        t = 1.5 * eye - 0.5 * z @ y
        y, z = y @ t, t @ z
    return z / size.sqrt()


class Shampoo:
    def __init__(self, weight, every, rate):
        self.weight, self.every, self.rate = weight, every, rate
        self.steps = 0  # for the progress bar
        self.count = torch.zeros(1, dtype=torch.long, device=weight.device)
        self.left = torch.eye(weight.shape[0], device=weight.device)
        self.root = torch.eye(weight.shape[0], device=weight.device)

    @torch.no_grad()
    def step(self, grad):
        self.steps += 1
        self.count += 1
        self.left.lerp_(grad @ grad.T + 1e-3 * torch.eye(len(grad), device=grad.device), 0.1)
        due = self.count.remainder(self.every) == 0
        self.root.copy_(torch.where(due, inverse_root(self.left), self.root))
        self.weight.sub_(self.root @ grad, alpha=self.rate)


def build(device):
    weight = nn.Parameter(torch.randn(8, 16, device=device) * 0.2)
    shampoo = Shampoo(weight, 20, 0.02)
    truth = torch.randn(8, 16)

    def step(x, y):
        loss = (x @ weight.T - y).square().mean()
        shampoo.step(torch.autograd.grad(loss, weight)[0])
        return loss.detach(), weight.detach().clone()

    def refresh(args, kwargs, k):
        x = torch.randn(32, 16)
        args[0].copy_(x)
        args[1].copy_(x @ truth.T)

    return graphsafe.Step(step, (torch.randn(32, 16, device=device), torch.randn(32, 8, device=device)), refresh=refresh)

"""A step of a hand-written K-FAC optimizer; inverses come from a fixed number of Newton-Schulz rounds."""

import torch
import torch.nn as nn

BATCH, INPUTS, HIDDEN, ROUNDS = 32, 10, 16, 14


class KFACLinear(nn.Module):
    """A linear map without bias that keeps the two factors of its curvature."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.register_buffer("inner", torch.eye(inputs))
        self.register_buffer("outer", torch.eye(outputs))
        self.register_buffer("inner_one", torch.eye(inputs))
        self.register_buffer("outer_one", torch.eye(outputs))

    def forward(self, x):
        return x @ self.weight.t()


def inverse(matrix, one):
    guess = matrix / matrix.square().sum()
    for _ in range(ROUNDS):
        guess = guess @ (2 * one - matrix @ guess)
    return guess


class KFACStep:
    def __init__(self, device, lr=0.1, decay=0.9, clip=1.0):
        self.first = KFACLinear(INPUTS, HIDDEN).to(device)
        self.second = KFACLinear(HIDDEN, 1).to(device)
        self.lr, self.decay, self.clip = lr, decay, clip
        self.damping = torch.ones((), device=device)

    def direction(self, layer, x, slope, gradient):
        layer.inner.mul_(self.decay).addmm_(x.t(), x, alpha=(1 - self.decay) / BATCH)
        layer.outer.mul_(self.decay).addmm_(slope.t(), slope, alpha=(1 - self.decay) * BATCH)
        left = inverse(layer.outer + self.damping * layer.outer_one, layer.outer_one)
        right = inverse(layer.inner + self.damping * layer.inner_one, layer.inner_one)
        return left @ gradient @ right

    def __call__(self, x, y):
        before = self.first(x)
        hidden = before.tanh()
        out = self.second(hidden)
        loss = (out - y).square().mean()
        slopes = torch.autograd.grad(loss, (before, out), retain_graph=True)
        gradients = torch.autograd.grad(loss, (self.first.weight, self.second.weight))
        with torch.no_grad():
            moves = [
                self.direction(self.first, x, slopes[0], gradients[0]),
                self.direction(self.second, hidden, slopes[1], gradients[1]),
            ]
            norm = torch.stack([move.square().sum() for move in moves]).sum().sqrt()
            rate = self.lr * (self.clip / (norm + 1e-6)).clamp(max=1.0)
            self.first.weight.sub_(rate * moves[0])
            self.second.weight.sub_(rate * moves[1])
            self.damping.mul_(0.9).add_(0.002)
        return loss.detach()


def build(device):
    torch.manual_seed(12)
    step = KFACStep(device)
    return step, (torch.randn(BATCH, INPUTS, device=device), torch.randn(BATCH, 1, device=device))

"""A step of a hand-written K-FAC optimizer on a small regression net."""

import torch
import torch.nn as nn

BATCH, INPUTS, HIDDEN = 32, 10, 16


class KFACLinear(nn.Module):
    """A linear map without bias that keeps the two factors of its curvature."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.register_buffer("inner", torch.eye(inputs))
        self.register_buffer("outer", torch.eye(outputs))

    def forward(self, x):
        return x @ self.weight.t()


class KFACStep:
    def __init__(self, device, lr=0.1, decay=0.9, clip=1.0):
        self.first = KFACLinear(INPUTS, HIDDEN).to(device)
        self.second = KFACLinear(HIDDEN, 1).to(device)
        self.lr, self.decay, self.clip = lr, decay, clip
        self.steps = 0

    def direction(self, layer, x, slope, gradient):
        layer.inner.mul_(self.decay).addmm_(x.t(), x, alpha=(1 - self.decay) / BATCH)
        layer.outer.mul_(self.decay).addmm_(slope.t(), slope, alpha=(1 - self.decay) * BATCH)
        damping = 0.02 + 0.98 * 0.9**self.steps
        left = torch.linalg.inv(layer.outer + damping * torch.eye(layer.outer.shape[0], device=x.device))
        right = torch.linalg.inv(layer.inner + damping * torch.eye(layer.inner.shape[0], device=x.device))
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
            rate = self.lr * min(1.0, self.clip / (norm.item() + 1e-6))
            self.first.weight.sub_(moves[0], alpha=rate)
            self.second.weight.sub_(moves[1], alpha=rate)
        self.steps += 1
        return loss.detach()


def build(device):
    torch.manual_seed(12)
    step = KFACStep(device)
    return step, (torch.randn(BATCH, INPUTS, device=device), torch.randn(BATCH, 1, device=device))

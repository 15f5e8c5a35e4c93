"""Blockwise dynamic quantisation of activations with straight-through gradients, trained by a hand-written Lion."""
import torch
from torch import nn


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (x / scale).round().clamp(-15, 15) * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        inside = (x.abs() <= 15 * scale).to(grad.dtype)
        return grad * inside, None


class BlockLinear(nn.Module):
    def __init__(self, d_in, d_out, block=8):
        super().__init__()
        self.block = block
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def fake(self, t):
        tiles = t.unflatten(-1, (-1, self.block))
        scale = tiles.detach().abs().amax(-1, keepdim=True).clamp_min(1e-6) / 15
        return RoundSTE.apply(tiles, scale.expand_as(tiles)).flatten(-2)

    def forward(self, x):
        return nn.functional.linear(self.fake(x), self.fake(self.weight), self.bias)


class Lion:
    def __init__(self, params, lr, device):
        self.params = list(params)
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.lr = torch.tensor(lr).to(device)

    @torch.no_grad()
    def step(self):
        for p, m in zip(self.params, self.momentum):
            direction = torch.lerp(p.grad, m, 0.9).sign()
            p.sub_(self.lr * direction)
            m.lerp_(p.grad, 0.01)
        self.lr.mul_(0.995)

    def clear(self):
        for p in self.params:
            p.grad = None


def build(device):
    torch.manual_seed(6)
    net = nn.Sequential(BlockLinear(16, 24), nn.Tanh(), BlockLinear(24, 8)).to(device)
    opt = Lion(net.parameters(), 1e-3, device)

    def train_step(x, y):
        opt.clear()
        loss = (net(x) - y).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return train_step, (torch.randn(6, 16, device=device), torch.randn(6, 8, device=device))

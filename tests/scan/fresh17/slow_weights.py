"""Sign-momentum trainer with a warm-up and averaged weights."""
import torch
from torch import nn


class SoftShrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        ctx.width = width
        return torch.sign(x) * torch.relu(x.abs() - width)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.where(x.abs() > ctx.width, 1.0, 0.1), None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(12, 24)
        self.b = nn.Linear(24, 3)

    def forward(self, x):
        return self.b(SoftShrink.apply(self.a(x), 0.2))


def make_step(device, peak=2e-3, warm=50.0):
    net = Net().to(device)
    params = list(net.parameters())
    momentum = [torch.zeros_like(p) for p in params]
    slow = [p.detach().clone() for p in params]
    t = torch.zeros((), device=device)

    def step(x, y):
        loss = nn.functional.huber_loss(net(x), y)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            t.add_(1.0)
            rate = peak * torch.clamp(t / warm, max=1.0)
            keep = torch.clamp((1 + t) / (10 + t), max=0.999)
            norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
            squeeze = torch.clamp(1.0 / (norm + 1e-6), max=1.0)
            for p, g, m, s in zip(params, grads, momentum, slow):
                g = g * squeeze
                p.sub_(rate * torch.sign(torch.lerp(g, m, 0.9)))
                m.lerp_(g, 0.01)
                s.copy_(torch.lerp(p, s, keep))
        return loss.detach(), norm

    return step


def build(device):
    torch.manual_seed(7)
    step = make_step(device)
    return step, (torch.randn(8, 12, device=device), torch.randn(8, 3, device=device))

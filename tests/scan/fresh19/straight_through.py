import torch
from torch import nn


class RoundST(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(x)
        return (x.clamp(-1, 1) * levels).round() / levels

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1), None


class Codec(nn.Module):
    def __init__(self, dim, code):
        super().__init__()
        self.enc = nn.Linear(dim, code)
        self.dec = nn.Linear(code, dim)

    def forward(self, x):
        return self.dec(RoundST.apply(torch.tanh(self.enc(x)), 7.0))


class TrainStep:
    """Forward, backward and a Nesterov update with a device-side schedule."""

    def __init__(self, net, device, peak=0.05, warm=20.0):
        self.net = net
        self.params = list(net.parameters())
        self.velocity = [torch.zeros_like(p) for p in self.params]
        self.count = torch.zeros((), device=device)
        self.peak, self.warm = peak, warm
        self.norm = torch.zeros((), device=device)

    @torch.no_grad()
    def update(self, grads):
        self.count.add_(1)
        rate = self.peak * torch.clamp(self.count / self.warm, max=1.0)
        total = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        self.norm.copy_(total)
        clip = (1.0 / (total + 1e-6)).clamp(max=1.0)
        for p, v, g in zip(self.params, self.velocity, grads):
            g = g * clip
            v.mul_(0.9).add_(g)
            p.sub_(rate * (g + 0.9 * v))

    def __call__(self, x):
        loss = (self.net(x) - x).square().mean()
        grads = torch.autograd.grad(loss, self.params)
        self.update(grads)
        return loss.detach()


def build(device):
    torch.manual_seed(10)
    step = TrainStep(Codec(10, 6).to(device), device)
    return step, (torch.randn(12, 10, device=device),)

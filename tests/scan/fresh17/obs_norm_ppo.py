"""Actor-critic minibatch update with running observation statistics."""
import torch
from torch import nn


class CapGrad(torch.autograd.Function):
    """Identity whose gradient has a bounded norm."""

    @staticmethod
    def forward(ctx, x, cap):
        ctx.cap = cap
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        size = float(grad.norm())
        factor = min(1.0, ctx.cap / (size + 1e-6))
        return grad * factor, None


class Normalizer:
    def __init__(self, width, device):
        self.mean = torch.zeros(width, device=device)
        self.m2 = torch.ones(width, device=device)
        self.n = 1

    def __call__(self, obs):
        self.n += obs.shape[0]
        delta = obs - self.mean
        self.mean = self.mean + delta.sum(0) / self.n
        self.m2.add_((delta * (obs - self.mean)).sum(0))
        return (obs - self.mean) * torch.rsqrt(self.m2 / self.n + 1e-5)


class Learner:
    def __init__(self, device, obs=6, acts=3):
        self.norm = Normalizer(obs, device)
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh()).to(device)
        self.pi = nn.Linear(32, acts, device=device)
        self.vf = nn.Linear(32, 1, device=device)
        self.params = [*self.body.parameters(), *self.pi.parameters(), *self.vf.parameters()]
        self.round = 0

    def update(self, obs, act, ret):
        self.round += 1
        torch.manual_seed(1000 + self.round)
        h = self.body(self.norm(obs + 0.01 * torch.randn_like(obs)))
        logp = self.pi(h).log_softmax(-1).gather(1, act.unsqueeze(1)).squeeze(1)
        value = self.vf(CapGrad.apply(h, 0.5)).squeeze(1)
        loss = -(logp * (ret - value.detach())).mean() + 0.5 * (value - ret).square().mean()
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            torch._foreach_add_(self.params, grads, alpha=-0.01)
        return loss.detach()


def build(device):
    torch.manual_seed(9)
    learner = Learner(device)
    obs = torch.randn(16, 6, device=device)
    act = torch.randint(0, 3, (16,), device=device)
    return learner.update, (obs, act, torch.randn(16, device=device))

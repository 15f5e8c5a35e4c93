"""A regression step with an optimiser and an averaged copy written by hand."""
import torch
from torch import nn


def leaves(module):
    return [p for p in module.parameters() if p.requires_grad]


class Moments:
    def __init__(self, params, rate=1e-3, b1=0.9, b2=0.999, eps=1e-8):
        self.params = params
        self.rate, self.b1, self.b2, self.eps = rate, b1, b2, eps
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]
        self.count = 0

    @torch.no_grad()
    def move(self, grads):
        self.count += 1
        c1 = 1 - self.b1 ** self.count
        c2 = 1 - self.b2 ** self.count
        for p, g, m, v in zip(self.params, grads, self.m, self.v):
            m.mul_(self.b1).add_(g, alpha=1 - self.b1)
            v.mul_(self.b2).addcmul_(g, g, value=1 - self.b2)
            p.addcdiv_(m / c1, (v / c2).sqrt_().add_(self.eps), value=-self.rate)


class Average:
    def __init__(self, params, decay=0.995):
        self.decay = decay
        self.params = params
        self.shadow = [p.detach().clone() for p in params]

    @torch.no_grad()
    def follow(self):
        self.shadow = [self.decay * s + (1 - self.decay) * p for s, p in zip(self.shadow, self.params)]


class Clip:
    def __init__(self, limit):
        self.limit = limit

    def __call__(self, grads):
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        if norm > self.limit:
            grads = [g * (self.limit / norm) for g in grads]
        return grads


class Session:
    def __init__(self, net, limit=1.0):
        self.net = net
        params = leaves(net)
        self.params = params
        self.optimizer = Moments(params)
        self.average = Average(params)
        self.clip = Clip(limit)

    def train_once(self, x, y):
        loss = (self.net(x) - y).square().mean()
        grads = torch.autograd.grad(loss, self.params)
        self.optimizer.move(self.clip(grads))
        self.average.follow()
        return loss.detach()

    @torch.no_grad()
    def export(self):
        return {name: s.cpu() for (name, _), s in zip(self.net.named_parameters(), self.average.shadow)}


def build(device):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
    session = Session(net)
    x = torch.randn(128, 16, device=device)
    y = x.sum(1, keepdim=True).sin()
    return session.train_once, (x, y)

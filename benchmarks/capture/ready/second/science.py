"""Scientific and numerical steps."""
import functools
import operator

import torch
import torch.nn.functional as F
from torch import func, nn


class RungeKutta:
    def __init__(self, device, dt=0.02):
        self.y = torch.randn(16, 3, device=device)
        self.dt = dt

    @staticmethod
    def lorenz(y, rho):
        a, b, c = y.unbind(-1)
        return torch.stack([10 * (b - a), a * (rho - c) - b, a * b - 8 / 3 * c], -1)

    def __call__(self, rho):
        h, y = self.dt, self.y
        k1 = self.lorenz(y, rho)
        k2 = self.lorenz(y + h / 2 * k1, rho)
        k3 = self.lorenz(y + h / 2 * k2, rho)
        k4 = self.lorenz(y + h * k3, rho)
        y.copy_((y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)).clamp(-40, 40) * 0.9)
        return y.mean(0)


class Poisson:
    def __init__(self, n, device):
        k = torch.fft.fftfreq(n, device=device)
        k2 = k[:, None].square() + k[None].square()
        self.inverse = torch.where(k2 > 0, 1 / k2.clamp(min=1e-12), torch.zeros_like(k2))

    def __call__(self, rho):
        return torch.fft.ifft2(torch.fft.fft2(rho) * self.inverse).real


def sinkhorn(cost, rounds=20, eps=0.1):
    n, m = cost.shape
    f, g = torch.zeros_like(cost[:, 0]), torch.zeros_like(cost[0])
    for _ in range(rounds):
        f = -eps * torch.logsumexp((g - cost) / eps, 1)
        g = -eps * torch.logsumexp((f[:, None] - cost) / eps, 0)
    return ((f[:, None] + g - cost) / eps).exp() / (n * m)


class KMeans:
    def __init__(self, k, device):
        self.centres = torch.randn(k, 2, device=device)

    def __call__(self, points):
        ids = (points[:, None] - self.centres).square().sum(-1).argmin(-1)
        total = torch.zeros_like(self.centres).index_add_(0, ids, points)
        count = torch.zeros_like(self.centres[:, 0]).index_add_(0, ids, torch.ones_like(points[:, 0]))
        self.centres.lerp_(torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], self.centres), 0.2)
        return self.centres.clone()


class Pairs:
    def __init__(self, n, device):
        self.i, self.j = torch.triu_indices(n, n, 1, device=device)

    def __call__(self, pos):
        d = pos[self.i] - pos[self.j]
        r2 = d.square().sum(-1, keepdim=True) + 0.5
        force = d / r2**2
        return torch.zeros_like(pos).index_add_(0, self.i, force).index_add_(0, self.j, force, alpha=-1)


class Energy(nn.Module):
    """Forces as the gradient of a learned energy."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, pos):
        force = -func.grad(lambda p: self.net(p).sum())(pos)
        _, along = func.jvp(lambda p: self.net(p).squeeze(-1), (pos,), (force,))
        return force, along


class Penalty:
    """A critic's loss with a gradient penalty."""

    def __init__(self, device):
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)

    def __call__(self, real, fake):
        x = (0.5 * (real + fake)).requires_grad_()
        (g,) = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        loss = self.critic(fake).mean() - self.critic(real).mean() + (g.norm(dim=1) - 1).square().mean()
        grads = torch.autograd.grad(loss, list(self.critic.parameters()))
        return loss.detach(), grads[0]


class Microbatches:
    def __init__(self, device):
        self.net = nn.Linear(8, 2).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, nesterov=True, foreach=True)

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        total = torch.zeros((), device=x.device)
        for a, b in zip(x.chunk(4), y.chunk(4)):
            loss = F.mse_loss(self.net(a), b) / 4
            loss.backward()
            total = total + loss.detach()
        self.opt.step()
        return total


class Masters:
    """Half-precision weights with single-precision masters and a static loss scale."""

    def __init__(self, device):
        self.half = [torch.randn(8, 4, device=device).half().requires_grad_()]
        self.single = [p.detach().float() for p in self.half]

    def __call__(self, x):
        loss = (x.half() @ self.half[0]).float().square().mean()
        grads = torch.autograd.grad(loss * 128.0, self.half)
        with torch.no_grad():
            for h, s, g in zip(self.half, self.single, grads):
                g = g.float() / 128.0
                s.sub_(torch.where(g.isfinite(), g, torch.zeros_like(g)), alpha=0.01)
                h.copy_(s)
        return loss.detach()


class TreeNet(nn.Module):
    """A recursion over a fixed tree."""

    TREE = ((0, 1), ((2, 3), 4))

    def __init__(self):
        super().__init__()
        self.join = nn.Linear(16, 8)

    def _fold(self, node, leaves):
        if isinstance(node, int):
            return leaves[node]
        return torch.tanh(self.join(torch.cat([self._fold(n, leaves) for n in node], -1)))

    def forward(self, x):
        return self._fold(self.TREE, x.unbind(1))


class Scan(nn.Module):
    def forward(self, decay, x):
        h, out = torch.zeros_like(x[:, 0]), []
        for a, u in zip(torch.sigmoid(decay).unbind(1), x.unbind(1)):
            h = a * h + u
            out.append(h)
        return torch.stack(out, 1), torch.logcumsumexp(x, 1)


@functools.singledispatch
def activate(x, *rest):
    raise TypeError(type(x))


@activate.register
def _(x: torch.Tensor, scale):
    return F.softplus(x) * scale


class Program:
    OPS = {"add": operator.add, "mul": operator.mul, "flip": operator.methodcaller("flip", -1)}

    def __init__(self, source):
        self.source = source.split()

    def __call__(self, x, y):
        stack = []
        for word in self.source:
            if word in "xy":
                stack.append({"x": x, "y": y}[word])
            elif word == "flip":
                stack.append(self.OPS[word](stack.pop()))
            else:
                stack.append(self.OPS[word](stack.pop(), stack.pop()))
        return stack.pop()


def build_runge_kutta(device):
    return RungeKutta(device), (torch.rand(16, device=device) * 20,)


def build_poisson(device):
    return Poisson(16, device), (torch.randn(16, 16, device=device),)


def build_sinkhorn(device):
    return sinkhorn, (torch.rand(6, 9, device=device),)


def build_k_means(device):
    return KMeans(5, device), (torch.randn(64, 2, device=device),)


def build_pairs(device):
    return Pairs(8, device), (torch.randn(8, 3, device=device),)


def build_energy(device):
    return Energy().to(device), (torch.randn(6, 3, device=device),)


def build_penalty(device):
    return Penalty(device), (torch.randn(8, 4, device=device), torch.randn(8, 4, device=device))


def build_microbatches(device):
    return Microbatches(device), (torch.randn(16, 8, device=device), torch.randn(16, 2, device=device))


def build_masters(device):
    return Masters(device), (torch.randn(16, 8, device=device),)


def build_tree_net(device):
    return TreeNet().to(device), (torch.randn(4, 5, 8, device=device),)


def build_scan(device):
    return Scan(), (torch.randn(2, 6, 4, device=device), torch.randn(2, 6, 4, device=device))


def build_activate(device):
    return activate, (torch.randn(4, 8, device=device), 0.7)


def build_program(device):
    return Program("x y add flip x mul y add"), (torch.randn(4, 8, device=device), torch.randn(4, 8, device=device))

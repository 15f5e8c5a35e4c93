"""Training steps with hand-written and stock optimisers."""
import math
from contextlib import nullcontext

import torch
from torch import nn


def lane(device):
    return torch.cuda.Stream(device) if device.type == "cuda" else None


def on(stream):
    return torch.cuda.stream(stream) if stream is not None else nullcontext()


def regression_gradient(w, x, y):
    error = x @ w - y
    return x.t() @ error / x.shape[0], error.square().mean()


def data(device, rows=16, dim=8, out=3):
    return torch.randn(rows, dim, device=device), torch.randn(rows, out, device=device)


class AveragedWeights:
    """Keep an average of the weights, and how far it lags, off the critical path."""

    def __init__(self, device):
        self.w = torch.randn(8, 3, device=device)
        self.average = self.w.clone()
        self.lag = torch.zeros((), device=device)
        self.side = lane(device)
        self.done = torch.cuda.Event() if self.side is not None else None

    def __call__(self, x, y):
        g, loss = regression_gradient(self.w, x, y)
        self.w.sub_(g, alpha=0.05)
        if self.side is not None:
            self.side.wait_stream(torch.cuda.current_stream())
        with on(self.side):
            self.average.lerp_(self.w, 0.1)
            if self.done is not None:
                self.done.record(self.side)
            self.lag.copy_((self.average - self.w).norm())
        if self.done is not None:
            torch.cuda.current_stream().wait_event(self.done)
        return loss, self.average.clone()


def build_averaged_weights(device):
    return AveragedWeights(device), data(device)


class ScaledStep:
    """Gradient descent with dynamic loss scaling."""

    def __init__(self, device):
        self.w = torch.randn(8, 3, device=device)
        self.scale = 64.0
        self.overflow = torch.zeros(1, pin_memory=device.type == "cuda")

    def __call__(self, x, y):
        if self.overflow[0] > 0:
            self.scale = max(self.scale * 0.5, 1.0)
        else:
            self.scale = min(self.scale * 1.2, 4096.0)
        g, loss = regression_gradient(self.w, x, y)
        scaled = g * self.scale
        over = (scaled.abs().max() > 100.0).float().view(1)
        self.overflow.copy_(over, non_blocking=True)
        self.w.sub_(scaled * (0.02 / self.scale) * (1.0 - over))
        return loss, scaled


def build_scaled_step(device):
    return ScaledStep(device), data(device)


class CosineTrainer:
    def __init__(self, device):
        self.model = nn.Linear(8, 3).to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.2, momentum=0.5)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=30)

    def __call__(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        self.opt.step()
        self.schedule.step()
        return loss.detach(), self.model.weight.detach()


def build_cosine_trainer(device):
    return CosineTrainer(device), data(device)


class Adam:
    def __init__(self, device, lr=0.05, betas=(0.9, 0.99)):
        self.w = torch.randn(8, 3, device=device)
        self.lr, self.betas = lr, betas
        self.state = {"step": 0, "m": torch.zeros_like(self.w), "v": torch.zeros_like(self.w)}

    def moments(self, g):
        b1, b2 = self.betas
        self.state["m"].lerp_(g, 1 - b1)
        self.state["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
        return self.state["m"], self.state["v"]

    def __call__(self, x, y):
        g, loss = regression_gradient(self.w, x, y)
        m, v = self.moments(g)
        self.state["step"] += 1
        b1, b2 = self.betas
        size = self.lr * math.sqrt(1 - b2 ** self.state["step"]) / (1 - b1 ** self.state["step"])
        self.w.addcdiv_(m, v.sqrt().add_(1e-8), value=-size)
        return loss, self.w.clone()


class DeviceAdam(Adam):
    def __init__(self, device, **options):
        super().__init__(device, **options)
        self.powers = torch.ones(2, device=device)
        self.decay = torch.tensor(self.betas, device=device)

    def __call__(self, x, y):
        g, loss = regression_gradient(self.w, x, y)
        m, v = self.moments(g)
        self.powers.mul_(self.decay)
        left = 1.0 - self.powers
        size = self.lr * left[1].sqrt() / left[0]
        self.w.sub_(size * m / (v.sqrt() + 1e-8))
        return loss, self.w.clone()


def build_adam(device):
    return Adam(device), data(device)


def build_device_adam(device):
    return DeviceAdam(device), data(device)


class DecoupledDecay:
    def __init__(self, device, lr=0.05, decay=0.4):
        self.w = nn.Parameter(torch.randn(8, 3, device=device), requires_grad=False)
        self.lr, self.decay = lr, decay

    def __call__(self, x, y):
        g, loss = regression_gradient(self.w, x, y)
        self.w.data = self.w.data * (1.0 - self.lr * self.decay)
        self.w.data.sub_(g, alpha=self.lr)
        return loss, x @ self.w


def build_decoupled_decay(device):
    return DecoupledDecay(device), data(device)


class GuardedStep:
    def __init__(self, device):
        self.w = torch.randn(8, 3, device=device)
        self.norm = torch.zeros(1, pin_memory=device.type == "cuda")

    def __call__(self, x, y):
        assert float(self.norm[0]) >= 0.0, "the gradient norm came back negative"
        g, loss = regression_gradient(self.w, x, y)
        self.norm.copy_(g.square().sum().sqrt().view(1), non_blocking=True)
        self.w.sub_(g, alpha=0.05)
        return loss, self.w.clone()


def build_guarded_step(device):
    return GuardedStep(device), data(device)


class FlatMomentum:
    """Two layers whose weights and momenta live in one flat buffer."""

    def __init__(self, device):
        self.flat = torch.randn(8 * 6 + 6 * 3, device=device) / 3
        self.momentum = torch.zeros_like(self.flat)
        self.grad = torch.zeros_like(self.flat)
        self.first, self.second = self.flat[:48].view(8, 6), self.flat[48:].view(6, 3)
        self.g_first, self.g_second = self.grad[:48].view(8, 6), self.grad[48:].view(6, 3)

    def __call__(self, x, y):
        h = torch.tanh(x @ self.first)
        error = h @ self.second - y
        torch.mm(h.t(), error, out=self.g_second)
        torch.mm(x.t(), (error @ self.second.t()) * (1 - h * h), out=self.g_first)
        self.momentum.mul_(0.8).add_(self.grad, alpha=1 / x.shape[0])
        self.flat.sub_(self.momentum, alpha=0.1)
        return error.square().mean(), self.flat.clone()


def build_flat_momentum(device):
    return FlatMomentum(device), data(device)

"""Training steps."""
import torch
import torch.nn.functional as F
from torch import nn


def _net(device):
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(device)


class Fit:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt

    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        return loss.detach()


class HandAdam:
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99)):
        self.params, self.lr, self.betas, self.t = list(params), lr, betas, 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self, set_to_none=True):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            step = self.lr / (1 - b1**self.t)
            p.addcdiv_(m, (v / (1 - b2**self.t)).sqrt_().add_(1e-8), value=-step)


class TensorAdam(HandAdam):
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99)):
        super().__init__(params, lr, betas)
        self.t = torch.zeros((), device=self.params[0].device)

    @torch.no_grad()
    def step(self):
        self.t.add_(1)
        b1, b2 = self.betas
        c1, c2 = 1 - b1**self.t, 1 - b2**self.t
        for p, m, v in zip(self.params, self.m, self.v):
            m.lerp_(p.grad, 1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            p.sub_(self.lr * (m / c1) / ((v / c2).sqrt() + 1e-8))


class Scheduled(Fit):
    def __init__(self, net, opt, sched):
        super().__init__(net, opt)
        self.sched = sched

    def __call__(self, x, y):
        loss = super().__call__(x, y)
        self.sched.step()
        return loss


class Scaled(Fit):
    def __init__(self, net, opt, device):
        super().__init__(net, opt)
        self.scaler = torch.amp.GradScaler(device.type)

    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


class Clipped(Fit):
    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        for p in self.net.parameters():
            p.grad = None
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
        self.opt.step()
        return loss.detach()


class Accumulate(Fit):
    """Steps the optimiser at every fourth micro-batch."""

    def __init__(self, net, opt, every=4):
        super().__init__(net, opt)
        self.every, self.micro = every, 0

    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y) / self.every
        loss.backward()
        self.micro += 1
        if self.micro % self.every == 0:
            self.opt.step()
            self.opt.zero_grad(set_to_none=False)
        return loss.detach()


class EmaFit(Fit):
    def __init__(self, net, opt):
        super().__init__(net, opt)
        self.ema = [p.detach().clone() for p in net.parameters()]

    def __call__(self, x, y):
        loss = super().__call__(x, y)
        with torch.no_grad():
            torch._foreach_lerp_(self.ema, list(self.net.parameters()), 0.05)
        return loss, self.ema[0].sum()


class WarmupEma(EmaFit):
    def __init__(self, net, opt):
        super().__init__(net, opt)
        self.updates = 0

    def __call__(self, x, y):
        loss = Fit.__call__(self, x, y)
        self.updates += 1
        decay = min(0.999, self.updates / (self.updates + 100))
        with torch.no_grad():
            torch._foreach_lerp_(self.ema, list(self.net.parameters()), 1 - decay)
        return loss, self.ema[0].sum()


def _xy(device):
    return torch.randn(8, 16, device=device), torch.randn(8, 4, device=device)


def build_sgd(device):
    net = _net(device)
    return Fit(net, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)), _xy(device)


def build_adam_capturable(device):
    net = _net(device)
    return Fit(net, torch.optim.Adam(net.parameters(), lr=1e-3, capturable=device.type == "cuda")), _xy(device)


def build_adamw_tensor_lr(device):
    net = _net(device)
    lr = torch.tensor(1e-3, device=device)
    return Fit(net, torch.optim.AdamW(net.parameters(), lr=lr, capturable=device.type == "cuda")), _xy(device)


def build_adamw_plain(device):
    net = _net(device)
    return Fit(net, torch.optim.AdamW(net.parameters(), lr=1e-3)), _xy(device)


def build_hand_adam(device):
    net = _net(device)
    return Fit(net, HandAdam(net.parameters())), _xy(device)


def build_tensor_adam(device):
    net = _net(device)
    return Fit(net, TensorAdam(net.parameters())), _xy(device)


def build_scheduled(device):
    net = _net(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    return Scheduled(net, opt, torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)), _xy(device)


def build_scaled(device):
    net = _net(device)
    return Scaled(net, torch.optim.SGD(net.parameters(), lr=0.01), device), _xy(device)


def build_clipped(device):
    net = _net(device)
    return Clipped(net, torch.optim.SGD(net.parameters(), lr=0.01)), _xy(device)


def build_accumulate(device):
    net = _net(device)
    return Accumulate(net, torch.optim.SGD(net.parameters(), lr=0.05)), _xy(device)


def build_ema_fit(device):
    net = _net(device)
    return EmaFit(net, torch.optim.SGD(net.parameters(), lr=0.01)), _xy(device)


def build_warmup_ema(device):
    net = _net(device)
    return WarmupEma(net, torch.optim.SGD(net.parameters(), lr=0.01)), _xy(device)

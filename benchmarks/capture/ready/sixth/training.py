"""Training steps with their optimizers."""
import copy
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel

log = logging.getLogger("training")


def _mlp(device, inputs=8, hidden=16, outputs=4):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)).to(device)


class RectifiedTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.optimizer = torch.optim.RAdam(self.net.parameters(), lr=1e-2, weight_decay=1e-2)

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.net[0].weight.detach().clone()


def build_rectified_trainer(device):
    return RectifiedTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class BucketTrainer:
    """Packs gradients into a bucket and averages it on a second stream."""

    def __init__(self, device):
        self.weight = torch.randn(512, 512, device=device) * 0.05
        self.bucket = torch.zeros(512, 512, device=device)
        self.average = torch.zeros(512, 512, device=device)
        self.comm = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, x, y):
        error = x @ self.weight - y
        self.bucket.copy_(x.T @ error / x.shape[0])
        if self.comm is not None:
            self.comm.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(self.comm):
            self.average.lerp_(self.bucket, 0.1)
        self.weight.sub_(self.average, alpha=0.01).mul_(0.999)
        if self.comm is not None:
            torch.cuda.current_stream(x.device).wait_stream(self.comm)
        return error.square().mean()


def build_bucket_trainer(device):
    return BucketTrainer(device), (torch.randn(64, 512, device=device), torch.randn(64, 512, device=device))


class HalfRateTrainer:
    """Two backward passes for each update of the weights."""

    def __init__(self, device):
        self.net = nn.Linear(6, 3, device=device)
        self.rate = 0.05

    def __call__(self, x, y):
        first = self.net.weight.grad is None
        loss = F.mse_loss(self.net(x), y) / 2
        loss.backward()
        if not first:
            with torch.no_grad():
                for p in self.net.parameters():
                    p.sub_(p.grad, alpha=self.rate)
            self.net.zero_grad(set_to_none=True)
        return loss.detach(), self.net.weight.detach().clone()


def build_half_rate_trainer(device):
    return HalfRateTrainer(device), (torch.randn(24, 6, device=device), torch.randn(24, 3, device=device))


class StrictTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def __call__(self, x, y):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, error_if_nonfinite=True)
        self.optimizer.step()
        return loss.detach(), norm


def build_strict_trainer(device):
    return StrictTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class ScaledTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=256.0)

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.smooth_l1_loss(self.net(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach(), self.net[2].bias.detach().clone()


def build_scaled_trainer(device):
    return ScaledTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class AveragingTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.average = AveragedModel(self.net, device=device)

    def __call__(self, x, y):
        loss = F.mse_loss(self.net(x), y)
        grads = torch.autograd.grad(loss, list(self.net.parameters()))
        with torch.no_grad():
            for p, g in zip(self.net.parameters(), grads):
                p.sub_(g, alpha=0.05)
            self.average.update_parameters(self.net)
            return loss.detach(), self.average(x)


def build_averaging_trainer(device):
    return AveragingTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class CapturableTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.optimizer = torch.optim.NAdam(self.net.parameters(), lr=2e-3, capturable=device.type == "cuda")
        self.updates = 0

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 50 == 0:
            log.info("%d updates", self.updates)
        return loss.detach(), self.net(x).detach()


def build_capturable_trainer(device):
    return CapturableTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class LeakyGradient:
    """Gradients are never cleared, they fade."""

    def __init__(self, device):
        self.net = nn.Linear(6, 3, device=device)
        self.fade = 0.5

    def __call__(self, x, y):
        for p in self.net.parameters():
            if p.grad is not None:
                p.grad.mul_(self.fade)
        loss = F.mse_loss(self.net(x), y)
        loss.backward()
        with torch.no_grad():
            for p in self.net.parameters():
                p.sub_(p.grad, alpha=0.02)
        return loss.detach(), self.net.weight.grad.clone()


def build_leaky_gradient(device):
    return LeakyGradient(device), (torch.randn(24, 6, device=device), torch.randn(24, 3, device=device))


class HookedTrainer:
    def __init__(self, device):
        self.net = _mlp(device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.03, momentum=0.8, nesterov=True)
        self.arrived = {}
        for name, p in self.net.named_parameters():
            p.register_post_accumulate_grad_hook(lambda p, name=name: self._arrive(name, p))

    def _arrive(self, name, p):
        self.arrived[name] = self.arrived.get(name, 0) + 1
        p.grad.clamp_(-0.5, 0.5)

    def __call__(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = F.huber_loss(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), self.net[2].weight.detach().clone()


def build_hooked_trainer(device):
    return HookedTrainer(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))


class MeanTeacher:
    def __init__(self, device):
        self.student = _mlp(device)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.pairs = (list(self.teacher.parameters()), list(self.student.parameters()))
        self.ramp = torch.zeros((), device=device)

    def __call__(self, x, y):
        with torch.no_grad():
            soft = self.teacher(x)
        guess = self.student(x)
        loss = F.mse_loss(guess, y) + self.ramp * F.mse_loss(guess, soft)
        grads = torch.autograd.grad(loss, self.pairs[1])
        with torch.no_grad():
            torch._foreach_sub_(self.pairs[1], [g * 0.05 for g in grads])
            torch._foreach_lerp_(*self.pairs, 0.05)
            self.ramp.add_(0.01).clamp_(max=1.0)
        return loss.detach(), soft


def build_mean_teacher(device):
    return MeanTeacher(device), (torch.randn(32, 8, device=device), torch.randn(32, 4, device=device))

"""Optimizers by name."""

import random

import torch
from torch.optim import Optimizer


class Registry(dict):
    def add(self, cls):
        self[cls.__name__.lower()] = cls
        return cls


OPTIMIZERS = Registry()


class PerTensor(Optimizer):
    """Calls `update` for every parameter that has a gradient."""

    def __init__(self, params, lr=0.1, **defaults):
        super().__init__(params, dict(lr=lr, **defaults))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, p.grad, self.state[p], group)
        return loss

    def update(self, p, grad, state, group):
        raise NotImplementedError


@OPTIMIZERS.add
class CorrectedMomentum(PerTensor):
    def update(self, p, grad, state, group):
        if not state:
            state.update(step=0, average=torch.zeros_like(p))
        state["step"] += 1  # guilty: bias_correction GS702
        state["average"].lerp_(grad, 0.1)
        p.sub_(state["average"] / (1 - 0.9 ** state["step"]), alpha=group["lr"])  # guilty: bias_correction GS702


# quiet: bias_correction_tensor
@OPTIMIZERS.add
class CorrectedMomentumTensor(PerTensor):
    def update(self, p, grad, state, group):
        if not state:
            state.update(step=torch.zeros((), device=p.device), average=torch.zeros_like(p))
        state["step"].add_(1)
        state["average"].lerp_(grad, 0.1)
        p.sub_(state["average"] / (1 - 0.9 ** state["step"]), alpha=group["lr"])


@OPTIMIZERS.add
class NormLimited(PerTensor):
    def update(self, p, grad, state, group):
        norm = grad.norm()
        if norm > group.get("limit", 1.0):  # guilty: norm_limit GS102
            grad = grad / norm
        p.add_(grad, alpha=-group["lr"])


# quiet: norm_limit_clamped
@OPTIMIZERS.add
class NormClamped(PerTensor):
    def update(self, p, grad, state, group):
        scale = (group.get("limit", 1.0) / grad.norm()).clamp(max=1.0)
        p.add_(grad * scale, alpha=-group["lr"])


def trust_ratio(p, update):
    weight, change = p.norm().item(), update.norm().item()  # guilty: layerwise_trust GS101
    return weight / change if weight and change else 1.0


# quiet: layerwise_trust_where
def trust_ratio_tensor(p, update):
    weight, change = p.norm(), update.norm()
    return torch.where((weight > 0) & (change > 0), weight / change, 1.0)


@OPTIMIZERS.add
class Layerwise(PerTensor):
    ratio = staticmethod(trust_ratio)

    def update(self, p, grad, state, group):
        direction = grad + 0.01 * p
        p.sub_(direction * self.ratio(p, direction) * group["lr"])


@OPTIMIZERS.add
class LayerwiseTensor(Layerwise):
    ratio = staticmethod(trust_ratio_tensor)


@OPTIMIZERS.add
class HeavyBall(PerTensor):
    def update(self, p, grad, state, group):
        velocity = state.get("velocity", torch.zeros_like(p))
        state["velocity"] = 0.9 * velocity + grad  # guilty: heavy_ball GS703
        p.add_(state["velocity"], alpha=-group["lr"])


# quiet: heavy_ball_kept
@OPTIMIZERS.add
class HeavyBallKept(PerTensor):
    def update(self, p, grad, state, group):
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(p)
        state["velocity"].mul_(0.9).add_(grad)
        p.add_(state["velocity"], alpha=-group["lr"])


@OPTIMIZERS.add
class Whitened(PerTensor):
    def update(self, p, grad, state, group):
        statistic = state.setdefault("statistic", torch.eye(p.shape[0], device=p.device))
        statistic.add_(grad @ grad.mT)
        p.sub_(torch.linalg.solve(statistic, grad) * group["lr"])  # guilty: whitened GS106


@OPTIMIZERS.add
class Langevin(PerTensor):
    def update(self, p, grad, state, group):
        noise = torch.randn(p.shape).to(p)  # guilty: langevin GS304|GS504
        p.add_(grad, alpha=-group["lr"]).add_(noise, alpha=group["lr"] ** 0.5)


# quiet: langevin_device
@OPTIMIZERS.add
class LangevinDevice(PerTensor):
    def update(self, p, grad, state, group):
        p.add_(grad, alpha=-group["lr"]).add_(torch.randn_like(p), alpha=group["lr"] ** 0.5)


@OPTIMIZERS.add
class StochasticDepth(PerTensor):
    """Leaves out some updates."""

    def update(self, p, grad, state, group):
        keep = random.random() * 0.5 + 0.5  # guilty: skipped_updates GS504
        p.add_(grad, alpha=-group["lr"] * keep)


class Lookahead:
    """Wraps an optimizer; the slow weights follow every `k` steps."""

    def __init__(self, inner, k=3, alpha=0.5):
        self.inner, self.k, self.alpha = inner, k, alpha
        self._since = 0
        self.slow = [p.detach().clone() for group in inner.param_groups for p in group["params"]]

    def step(self):
        self.inner.step()
        self._since = (self._since + 1) % self.k  # guilty: lookahead GS702
        if self._since == 0:  # guilty: lookahead GS702
            self._follow()

    @torch.no_grad()
    def _follow(self):
        fast = [p for group in self.inner.param_groups for p in group["params"]]
        for slow, p in zip(self.slow, fast, strict=True):
            slow.lerp_(p, self.alpha)
            p.copy_(slow)

"""What changes from step to step."""

import itertools
import math


class LambdaSchedule:
    def __init__(self, optimizer, factor):
        self.optimizer, self.factor = optimizer, factor
        self.bases = [group["lr"] for group in optimizer.param_groups]
        self.epoch = 0

    def step(self):
        self.epoch += 1  # guilty: lambda_schedule GS702
        for base, group in zip(self.bases, self.optimizer.param_groups, strict=True):
            group["lr"] = base * self.factor(self.epoch)  # guilty: lambda_schedule GS702


def cosine(total):
    return lambda epoch: 0.5 * (1 + math.cos(math.pi * epoch / total))


class TableSchedule:
    table = (0.1, 0.2, 0.4, 0.3, 0.2, 0.1)

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.position = -1

    @property
    def rate(self):
        return self.table[self.position % len(self.table)]

    def step(self):
        setattr(self, "position", self.position + 1)  # noqa: B010  # guilty: table_schedule GS702
        self.optimizer.param_groups[0]["lr"] = self.rate  # guilty: table_schedule GS702


class CyclicMomentum:
    def __init__(self, values):
        self.values = itertools.cycle(values)

    def apply(self, velocity, grad):
        velocity.mul_(next(self.values)).add_(grad)  # guilty: cyclic_momentum GS702
        return velocity


class WeightDecayRamp:
    """A generator that never ends, advanced once a step."""

    def __init__(self, stop=0.5, steps=20):
        self.ramp = self._values(stop, steps)

    @staticmethod
    def _values(stop, steps):
        for n in itertools.count():
            yield stop * min(n / steps, 1.0)

    def decayed(self, weight):
        decay = next(self.ramp)  # guilty: decay_ramp GS702
        return weight * (1 - decay)  # guilty: decay_ramp GS702


class Plateau:
    def __init__(self, device_best):
        self.best, self.rate = device_best, 1.0

    def step(self, loss):
        better = loss < self.best * 0.99
        if not better:  # guilty: plateau GS102
            self.rate *= 0.5
        self.best.copy_(loss)
        return loss * self.rate


# quiet: plateau_where
class PlateauTensor:
    def __init__(self, best, rate):
        self.best, self.rate = best, rate

    def step(self, loss):
        self.rate.mul_((loss >= self.best * 0.99) * -0.5 + 1.0)
        self.best.copy_(loss)
        return loss * self.rate


# quiet: rate_tensor
class TensorSchedule:
    """The rate is a tensor; the host counts nothing."""

    def __init__(self, rate, decay=0.9):
        self.rate, self.decay = rate, decay

    def step(self, weight, grad):
        self.rate.mul_(self.decay)
        return weight.sub_(grad * self.rate)

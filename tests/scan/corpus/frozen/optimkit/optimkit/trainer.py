"""One training step, in several fashions."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def loss(self, x, y):
        return F.mse_loss(self.model(x), y)

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.loss(x, y)
        loss.backward()
        self.finish(loss)
        return loss.detach(), [p.detach().clone() for p in self.model.parameters()]

    def finish(self, loss):
        self.optimizer.step()  # guilty: plain_adamw GS802


def make_optimizer(model, name, **options):
    return getattr(torch.optim, name)(model.parameters(), **options)


def adam_trainer(model):
    return Trainer(model, make_optimizer(model, "AdamW", lr=1e-2))  # guilty: plain_adamw GS802


class RootPropTrainer(Trainer):
    """Makes its own optimizer."""

    def __init__(self, model):
        super().__init__(model, torch.optim.RMSprop(model.parameters(), lr=1e-2))  # guilty: plain_rmsprop GS802

    def finish(self, loss):
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()  # guilty: plain_rmsprop GS802


# quiet: capturable_adamw
class CapturableTrainer(Trainer):
    def __init__(self, model):
        capturable = next(model.parameters()).is_cuda
        super().__init__(model, torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=capturable))


class StrictTrainer(Trainer):
    def finish(self, loss):
        clip_grad_norm_(self.model.parameters(), 1.0, error_if_nonfinite=True)  # guilty: strict_clip GS102|GS106|GS101
        self.optimizer.step()


# quiet: plain_clip
class ClippingTrainer(Trainer):
    def finish(self, loss):
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class ScaledTrainer(Trainer):
    def __init__(self, model, optimizer, kind):
        super().__init__(model, optimizer)
        self.scaler = torch.amp.GradScaler(kind)

    def train_step(self, x, y):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # guilty: scaled_step GS101|GS102|GS106
        self.scaler.update()
        return loss.detach()


class LoggingTrainer(Trainer):
    def __init__(self, model, optimizer):
        super().__init__(model, optimizer)
        self.history = []

    def finish(self, loss):
        self.optimizer.step()
        self.history.append(loss.item())  # guilty: loss_history GS101


# quiet: loss_buffer
class BufferedTrainer(Trainer):
    """Losses stay on the device until somebody asks."""

    def __init__(self, model, optimizer):
        super().__init__(model, optimizer)
        self.total = torch.zeros((), device=next(model.parameters()).device)

    def finish(self, loss):
        self.optimizer.step()
        self.total.add_(loss.detach())

    def mean(self, steps):
        return self.total.item() / steps


class AccumulatingTrainer(Trainer):
    every = 3

    def __init__(self, model, optimizer):
        super().__init__(model, optimizer)
        self.micro = 0

    def finish(self, loss):
        self.micro += 1  # guilty: accumulation GS702
        if self.micro % self.every == 0:  # guilty: accumulation GS702
            self.optimizer.step()


def halt_on_nan(param):
    if not torch.isfinite(param.grad).all():  # guilty: nan_hook GS102
        param.grad.zero_()


def watch(model, hook=halt_on_nan):
    for param in model.parameters():
        param.register_post_accumulate_grad_hook(hook)
    return model


class Average:
    """The moving average of a model, with a warm-up of the decay."""

    def __init__(self, model, decay=0.99):
        self.model, self.limit, self.updates = model, decay, 0
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @property
    def decay(self):
        return min(self.limit, (1 + self.updates) / (10 + self.updates))  # guilty: average_warmup GS702

    @torch.no_grad()
    def update(self, x):
        self.updates += 1  # guilty: average_warmup GS702
        for kept, p in zip(self.shadow, self.model.parameters(), strict=True):
            kept.lerp_(p * x.mean(), 1 - self.decay)
        return [kept.clone() for kept in self.shadow]


class FreshAverage(Average):
    @torch.no_grad()
    def update(self, x):
        blend = 0.9
        self.shadow = [  # guilty: average_rebuilt GS703
            blend * kept + (1 - blend) * x.mean() * p
            for kept, p in zip(self.shadow, self.model.parameters(), strict=True)
        ]
        return self.shadow


# quiet: average_foreach
class ForeachAverage(Average):
    @torch.no_grad()
    def update(self, x):
        torch._foreach_mul_(self.shadow, 0.9)
        torch._foreach_add_(self.shadow, [p * x.mean() for p in self.model.parameters()], alpha=0.1)
        return [kept.clone() for kept in self.shadow]


class GradientScale:
    """Divides by the size of the first gradient that it saw."""

    def __init__(self):
        self.state = {}

    def step(self, grad):
        if "norm" not in self.state:
            self.state["norm"] = grad.norm() + 1e-6  # guilty: first_norm GS701
        return grad / self.state["norm"]


class Penalty(nn.Module):
    """Elastic weight consolidation; the anchor is on the host to save memory."""

    def __init__(self, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape))
        self.anchor = [torch.zeros(shape)]

    def forward(self, x):
        anchor = self.anchor[0].to(x.device, x.dtype)  # guilty: host_anchor GS304
        return ((self.weight * x - anchor) ** 2).mean(0)

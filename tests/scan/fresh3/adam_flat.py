"""A hand-written Adam that keeps its clock, its rate and its clipping on the device."""
import torch
from torch import nn


class FlatAdam:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, warmup=50, max_norm=1.0):
        self.params = [p for p in params if p.requires_grad]
        device = self.params[0].device
        self.betas = betas
        self.eps = eps
        self.warmup = warmup
        self.max_norm = max_norm
        self.lr = torch.tensor(lr, device=device)
        self.t = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)
        self.first = [torch.zeros_like(p) for p in self.params]
        self.second = [torch.zeros_like(p) for p in self.params]
        for p in self.params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        total = torch.stack([p.grad.norm() for p in self.params]).norm()
        healthy = torch.isfinite(total)
        self.t.add_(healthy)
        self.skipped.add_(healthy.logical_not())
        scale = torch.nan_to_num((self.max_norm / (total + 1e-6)).clamp(max=1.0), nan=0.0)
        rate = self.lr * (self.t / self.warmup).clamp(max=1.0)
        beta1, beta2 = self.betas
        clock = self.t.clamp(min=1.0)
        correct1 = 1 - beta1**clock
        correct2 = 1 - beta2**clock
        for p, m, v in zip(self.params, self.first, self.second):
            grad = torch.nan_to_num(p.grad) * scale
            m.mul_(beta1).add_(grad, alpha=1 - beta1)
            v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
            p.sub_(rate * (m / correct1) / ((v / correct2).sqrt() + self.eps))

    @torch.no_grad()
    def zero_grad(self):
        for p in self.params:
            p.grad.zero_()

    def set_lr(self, value):
        self.lr.fill_(value)

    def state_dict(self):
        return {
            "t": int(self.t),
            "lr": float(self.lr),
            "first": [m.cpu() for m in self.first],
            "second": [v.cpu() for v in self.second],
        }

    def load_state_dict(self, state):
        self.t.fill_(state["t"])
        self.lr.fill_(state["lr"])
        for name in ("first", "second"):
            for target, value in zip(getattr(self, name), state[name]):
                target.copy_(value)


class Regressor(nn.Module):
    def __init__(self, features, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.LayerNorm(width))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Trainer:
    def __init__(self, model, optimizer, device):
        self.model = model
        self.optimizer = optimizer
        self.running = torch.zeros((), device=device)

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.smooth_l1_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.running.lerp_(loss.detach(), 0.05)
        return loss.detach()

    def progress(self):
        return f"loss {self.running.item():.4f} after {int(self.optimizer.t)} steps"


def build(device):
    torch.manual_seed(1)
    model = Regressor(12).to(device)
    trainer = Trainer(model, FlatAdam(model.parameters()), device)
    return trainer.train_step, (torch.randn(16, 12, device=device), torch.randn(16, device=device))

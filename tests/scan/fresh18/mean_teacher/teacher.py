"""Consistency scores between a student and the moving average of its weights."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class Averaging:
    """Mixin that keeps a moving average of a module's parameters."""

    decay = 0.99

    def start_average(self, module: nn.Module) -> None:
        self.shadow = {name: p.detach().clone() for name, p in module.named_parameters()}

    @torch.no_grad()
    def advance_average(self, module: nn.Module) -> None:
        for name, p in module.named_parameters():
            old = self.shadow[name]
            self.shadow[name] = old.mul(self.decay).add(p, alpha=1 - self.decay)


class ConsistencyTrainer(Averaging):
    def __init__(self, student: nn.Module, lr: float = 0.05, temperature: float = 2.0):
        self.student = student
        self.params = list(student.parameters())
        self.lr = lr
        self.temperature = temperature
        self.start_average(student)

    def targets(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            logits = functional_call(self.student, self.shadow, (x,))
        return F.softmax(logits / self.temperature, -1)

    def loss(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.student(x)
        agree = F.kl_div(F.log_softmax(logits / self.temperature, -1), self.targets(x), reduction="batchmean")
        return F.cross_entropy(logits, labels) + agree

    def step(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = self.loss(x, labels)
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            torch._foreach_add_(self.params, grads, alpha=-self.lr)
        self.advance_average(self.student)
        return loss.detach()


def build(device):
    torch.manual_seed(1)
    student = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 5)).to(device)
    trainer = ConsistencyTrainer(student)
    x = torch.randn(12, 10, device=device)
    labels = torch.randint(0, 5, (12,), device=device)
    return trainer.step, (x, labels)

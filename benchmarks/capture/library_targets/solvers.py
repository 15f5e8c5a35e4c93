"""Differential equations by torchdiffeq, and metrics by torchmetrics."""

import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, width))

    def forward(self, t, y):
        return self.net(y)


def odeint_step(device, **options):
    from torchdiffeq import odeint

    field, times = Field(4).to(device), torch.linspace(0, 1, 5, device=device)

    @torch.no_grad()
    def step(start):
        return odeint(field, start, times, **options)[-1]

    return step, (torch.randn(8, 4, device=device),)


def fixed_steps(device):
    return odeint_step(device, method="rk4")


def adaptive_steps(device):
    return odeint_step(device, method="dopri5", rtol=1e-3, atol=1e-4)


def accuracy_with_checks(device):
    from torchmetrics.functional.classification import multiclass_accuracy

    return (lambda logits, labels: multiclass_accuracy(logits, labels, num_classes=5)), (
        torch.randn(32, 5, device=device),
        torch.randint(0, 5, (32,), device=device),
    )


def accuracy_without_checks(device):
    from torchmetrics.functional.classification import multiclass_accuracy

    def step(logits, labels):
        return multiclass_accuracy(logits, labels, num_classes=5, validate_args=False)

    return step, (torch.randn(32, 5, device=device), torch.randint(0, 5, (32,), device=device))


def running_error(device):
    from torchmetrics import MeanSquaredError

    metric = MeanSquaredError().to(device)

    def step(predicted, target):
        metric.update(predicted, target)
        return metric.sum_squared_error.clone()

    return step, (torch.randn(32, device=device), torch.randn(32, device=device))


def image_quality(device):
    from torchmetrics.functional.image import structural_similarity_index_measure

    return (lambda one, two: structural_similarity_index_measure(one, two, data_range=1.0)), (
        torch.rand(2, 1, 32, 32, device=device),
        torch.rand(2, 1, 32, 32, device=device),
    )

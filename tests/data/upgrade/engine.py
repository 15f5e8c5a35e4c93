import torch
from torch import nn


def largest(lengths: torch.Tensor) -> int:
    return int(lengths.max())  # the longest sequence of the batch


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("marks", torch.zeros(8))

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        self.marks[0] = 7
        y = x[x > 0]
        if lengths.sum() > 0:
            y = y * 2
        return y[: largest(lengths)]


def build(device):
    return Step().to(device), (torch.ones(4, device=device), torch.ones(4, dtype=torch.int64, device=device))

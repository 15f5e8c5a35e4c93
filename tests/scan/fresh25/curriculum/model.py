"""A gated convolutional regressor."""
import torch
from torch import nn


class GatedRegressor(nn.Module):
    def __init__(self, channels: int = 24, depth: int = 3):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 5, padding=2)
        self.gates = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 3, padding=1) for _ in range(depth))
        self.out = nn.Linear(channels, 2)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        h = self.inp(series.unsqueeze(1))
        for gate in self.gates:
            value, control = gate(h).chunk(2, dim=1)
            h = h + torch.tanh(value) * torch.sigmoid(control)
        return self.out(h.mean(-1))


class WeightAverage:
    def __init__(self, model: nn.Module, decay: float):
        self.model = model
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self.shadow, list(self.model.parameters()), 1.0 - self.decay)

    @torch.no_grad()
    def swap(self) -> None:
        for i, p in enumerate(self.model.parameters()):
            p.data, self.shadow[i] = self.shadow[i], p.data

"""Fits a residual network; forward and backward are graphs, the optimizer is not."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class FitConfig:
    width: int = 32
    depth: int = 2
    rows: int = 16
    epochs: int = 3
    lr: float = 0.02
    decay: float = 0.7


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Regressor(nn.Module):
    def __init__(self, inputs: int, config: FitConfig):
        super().__init__()
        self.stem = nn.Linear(inputs, config.width)
        self.blocks = nn.Sequential(*(Block(config.width) for _ in range(config.depth)))
        self.head = nn.Linear(config.width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x))).squeeze(-1)


class Fitter:
    def __init__(self, model: Regressor, inputs: int, config: FitConfig, device):
        self.config = config
        self.rows = config.rows
        self.optimizer = torch.optim.SGD(model.parameters(), lr=config.lr, momentum=0.9)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, config.decay)
        example = torch.randn(config.rows, inputs, device=device)
        self.model = torch.cuda.make_graphed_callables(model, (example,))

    def epoch(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The mean loss, still on the device. Rows that fill no batch are left out."""
        total = torch.zeros((), device=x.device)
        whole = x.shape[0] - x.shape[0] % self.rows
        for begin in range(0, whole, self.rows):
            rows = slice(begin, begin + self.rows)
            self.optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(self.model(x[rows]), y[rows])
            loss.backward()
            self.optimizer.step()
            total += loss.detach()
        self.schedule.step()
        return total / (whole // self.rows)

    def fit(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [self.epoch(x, y) for _ in range(self.config.epochs)]


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    config = FitConfig()
    fitter = Fitter(Regressor(6, config).to(device), 6, config, device)
    x = torch.randn(200, 6, device=device)
    losses = fitter.fit(x, x.square().sum(-1).sqrt())
    print("losses", torch.stack(losses).tolist())


if __name__ == "__main__":
    main()

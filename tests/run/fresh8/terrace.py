"""The whole training step, with its weight average, is recorded after two eager steps."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

BATCH, WIDTH, STEPS, EAGER = 64, 24, 80, 2


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x).squeeze(-1)


class Trainer:
    def __init__(self, device: torch.device) -> None:
        self.net = Regressor().to(device)
        self.average = copy.deepcopy(self.net).requires_grad_(False)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.x = torch.zeros(BATCH, WIDTH, device=device)
        self.y = torch.zeros(BATCH, device=device)
        self.loss = torch.zeros((), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.side = torch.cuda.Stream()
        self.done = 0

    def body(self, decay: float) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for mean, weight in zip(self.average.parameters(), self.net.parameters()):
                mean.lerp_(weight, 1.0 - decay)
        self.loss.copy_(loss.detach())

    def step(self, x: torch.Tensor, y: torch.Tensor, decay: float) -> torch.Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.done += 1
        if self.done <= EAGER:
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.body(decay)
            torch.cuda.current_stream().wait_stream(self.side)
            return self.loss.clone()
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.body(decay)
        self.graph.replay()
        return self.loss.clone()


def main() -> None:
    torch.manual_seed(2)
    device = torch.device("cuda")
    trainer = Trainer(device)
    target = torch.randn(WIDTH, device=device)
    losses = []
    for step in range(STEPS):
        x = torch.randn(BATCH, WIDTH, device=device)
        decay = min(0.98, (1 + step) / (10 + step))
        losses.append(trainer.step(x, torch.tanh(x @ target), decay))
    with torch.no_grad():
        x = torch.randn(512, WIDTH, device=device)
        y = torch.tanh(x @ target)
        plain, mean = F.mse_loss(trainer.net(x), y), F.mse_loss(trainer.average(x), y)
    curve = torch.stack(losses).tolist()
    print(f"loss {curve[0]:.4f} to {curve[-1]:.4f}; test {plain.item():.4f}, average {mean.item():.4f}")


if __name__ == "__main__":
    main()

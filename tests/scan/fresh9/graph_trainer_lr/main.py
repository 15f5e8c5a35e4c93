"""Whole-step training graph with a learning rate that decays."""

import torch
from torch import nn


class Schedule:
    def __init__(self, optimizer, factor, every):
        self.optimizer = optimizer
        self.factor = factor
        self.every = every
        self.calls = 0

    def step(self):
        self.calls += 1
        if self.calls % self.every == 0:
            for group in self.optimizer.param_groups:
                group["lr"] *= self.factor


class GraphTrainer:
    def __init__(self, model, batch, width, device, lr=0.1):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.schedule = Schedule(self.optimizer, 0.5, 3)
        self.x = torch.zeros(batch, width, device=device)
        self.y = torch.zeros(batch, 1, device=device)
        self.losses = []
        self._capture(device)

    def _step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss

    def _capture(self, device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self.loss = self._step()

    def fit(self, data):
        for x, y in data:
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            self.losses.append(self.loss.item())
            self.schedule.step()
        return sum(self.losses) / len(self.losses)


def synthetic(device, count=9):
    for _ in range(count):
        x = torch.randn(8, 4, device=device)
        yield x, x.sum(dim=1, keepdim=True)


def main():
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    trainer = GraphTrainer(model, 8, 4, device)
    print("mean loss", trainer.fit(synthetic(device)))


if __name__ == "__main__":
    main()

"""Whole-step training graph; the rate and the loss stay on the device."""

import torch
from torch import nn


class DeviceSchedule:
    def __init__(self, rate, factor, every):
        self.rate = rate
        self.factor = factor
        self.every = every
        self.calls = 0

    def step(self):
        self.calls += 1
        if self.calls % self.every == 0:
            self.rate.mul_(self.factor)


class GraphTrainer:
    def __init__(self, model, batch, width, device, lr=0.01):
        self.model = model
        self.rate = torch.full((), lr, device=device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=self.rate, capturable=True)
        self.schedule = DeviceSchedule(self.rate, 0.5, 3)
        self.x = torch.zeros(batch, width, device=device)
        self.y = torch.zeros(batch, 1, device=device)
        self.total = torch.zeros((), device=device)
        self._capture(device)

    def _step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.total.add_(loss.detach())

    def _capture(self, device):
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):
            self._step()

    def fit(self, data):
        self.total.zero_()
        for x, y in data:
            self.x.copy_(x)
            self.y.copy_(y)
            self.graph.replay()
            self.schedule.step()
        return self.total


def synthetic(device, count=9):
    for _ in range(count):
        x = torch.randn(8, 4, device=device)
        yield x, x.sum(dim=1, keepdim=True)


def main():
    device = torch.device("cuda")
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)
    trainer = GraphTrainer(model, 8, 4, device)
    for epoch in range(2):
        total = trainer.fit(synthetic(device))
        print(epoch, float(total))


if __name__ == "__main__":
    main()

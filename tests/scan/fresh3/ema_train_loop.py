"""Capture a whole optimisation step and replay it over a resident data set."""
import math

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, features=8, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.body(x))


class CapturedTrainer:
    def __init__(self, model, device, batch=16, lr=0.05):
        self.model = model
        self.device = device
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.x = torch.zeros(batch, 8, device=device)
        self.y = torch.zeros(batch, dtype=torch.long, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
        self._capture()

    def _step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def _capture(self):
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        with torch.cuda.graph(self.graph, stream=stream):
            self.loss = self._step()

    def set_lr(self, value):
        for group in self.optimizer.param_groups:
            group["lr"] = value

    @torch.no_grad()
    def blend(self, decay):
        for name, p in self.model.named_parameters():
            self.shadow[name].lerp_(p, 1 - decay)

    def load_shadow(self):
        for name, p in self.model.named_parameters():
            p.data = self.shadow[name].clone()


def train(trainer, data, labels, epochs):
    losses = []
    steps = epochs * len(data)
    done = 0
    for epoch in range(epochs):
        for x, y in zip(data, labels):
            trainer.set_lr(0.05 * 0.5 * (1 + math.cos(math.pi * done / steps)))
            trainer.x.copy_(x)
            trainer.y.copy_(y)
            trainer.graph.replay()
            trainer.blend(0.99)
            losses.append(float(trainer.loss))
            done += 1
        trainer.load_shadow()
    return losses


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    trainer = CapturedTrainer(Net().to(device), device)
    data = torch.randn(4, 16, 8, device=device)
    labels = torch.randint(0, 4, (4, 16), device=device)
    losses = train(trainer, data, labels, epochs=2)
    print("first", losses[0], "last", losses[-1])


if __name__ == "__main__":
    main()

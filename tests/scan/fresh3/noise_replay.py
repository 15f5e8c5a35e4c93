"""Data augmentation on the device, captured once and replayed for each batch."""
import random

import torch
from torch import nn


class Augment(nn.Module):
    def __init__(self, device, strength=0.1):
        super().__init__()
        self.strength = strength
        self.flips = random.Random(5)
        self.register_buffer("mean", torch.full((3, 1, 1), 0.5))
        self.to(device)

    def forward(self, x):
        if self.flips.random() < 0.5:
            x = x.flip(-1)
        noise = torch.randn_like(x)
        return (x - self.mean) + self.strength * noise


class Mixup:
    def __init__(self, alpha=0.4):
        self.alpha = alpha
        self.count = 0

    def __call__(self, x):
        weight = random.betavariate(self.alpha, self.alpha)
        self.count += 1
        return weight * x + (1 - weight) * x.roll(1, 0)


class AugmentGraph:
    def __init__(self, shape, device):
        self.augment = Augment(device)
        self.mixup = Mixup()
        self.x = torch.zeros(shape, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self.stream):
            self.apply()
        torch.cuda.current_stream(device).wait_stream(self.stream)
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.out = self.apply()

    def apply(self):
        return self.mixup(self.augment(self.x))

    def __call__(self, batch):
        self.x.copy_(batch)
        self.graph.replay()
        return self.out


class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 6, 4))

    def forward(self, x):
        return self.net(x)


def train(epochs, device):
    data = torch.rand(4, 8, 3, 6, 6, device=device)
    target = torch.randint(0, 4, (4, 8), device=device)
    augment = AugmentGraph((8, 3, 6, 6), device)
    probe = Probe().to(device)
    optimizer = torch.optim.SGD(probe.parameters(), lr=0.01)
    views = []
    for _ in range(epochs):
        for batch, label in zip(data, target):
            view = augment(batch)
            views.append(view)
            loss = nn.functional.cross_entropy(probe(view), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    contrast = torch.stack(views).var(0).mean()
    return contrast


def main():
    torch.manual_seed(0)
    print("contrast", train(2, torch.device("cuda")).item())


if __name__ == "__main__":
    main()

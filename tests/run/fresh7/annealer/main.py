"""Fits a small network; forward, backward and the optimiser are one unit."""
import math

import torch
from torch import nn

STEPS, BATCH = 150, 32


def cosine(step, base, floor):
    return floor + 0.5 * (base - floor) * (1 + math.cos(math.pi * step / STEPS))


class Trainer:
    def __init__(self, device):
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1)).to(device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.04, momentum=0.9)
        self.x = torch.zeros(BATCH, 16, device=device)
        self.t = torch.zeros(BATCH, 1, device=device)
        self.loss = torch.zeros((), device=device)
        self.graph = torch.cuda.CUDAGraph()

    def unit(self):
        self.opt.zero_grad(set_to_none=False)
        loss = (self.net(self.x) - self.t).square().mean()
        loss.backward()
        self.opt.step()
        self.loss.copy_(loss.detach())

    def setup(self, x, t):
        self.x.copy_(x)
        self.t.copy_(t)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.unit()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.unit()

    def train_step(self, x, t, lr):
        for group in self.opt.param_groups:
            group["lr"] = lr
        self.x.copy_(x)
        self.t.copy_(t)
        self.graph.replay()


def main():
    torch.manual_seed(5)
    device = torch.device("cuda")
    xs = torch.randn(STEPS, BATCH, 16).to(device)
    ts = torch.sin(xs.sum(-1, keepdim=True)) + 0.3 * torch.randn(STEPS, BATCH, 1).to(device)
    trainer = Trainer(device)
    trainer.setup(xs[0], ts[0])
    mean = torch.zeros((), device=device)
    for step in range(STEPS):
        trainer.train_step(xs[step], ts[step], cosine(step, 0.04, 0.0002))
        if step >= STEPS - 30:
            mean.add_(trainer.loss)
    print(f"loss of the last 30 steps {mean.item() / 30:.5f}")


if __name__ == "__main__":
    main()

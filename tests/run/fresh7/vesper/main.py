"""Trains with Adam; the whole iteration is one unit, the learning rate follows a schedule."""
import math

import torch
from torch import nn

STEPS, BATCH = 120, 48


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.body(x))


class Loop:
    def __init__(self, device):
        self.net = Regressor().to(device)
        self.rate = torch.full((), 0.01, device=device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=self.rate, capturable=True)
        self.x = torch.zeros(BATCH, 12, device=device)
        self.t = torch.zeros(BATCH, 1, device=device)
        self.losses = torch.zeros((), device=device)
        self.graph = None

    def iteration(self):
        self.opt.zero_grad(set_to_none=True)
        loss = (self.net(self.x) - self.t).square().mean()
        loss.backward()
        self.opt.step()
        self.losses.add_(loss.detach())

    def record(self, x, t):
        self.x.copy_(x)
        self.t.copy_(t)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.iteration()
        torch.cuda.current_stream().wait_stream(side)
        self.opt.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.iteration()
        self.losses.zero_()

    def step(self, x, t, rate):
        self.x.copy_(x)
        self.t.copy_(t)
        self.rate.copy_(rate)
        self.graph.replay()


def schedule(step):
    warm = min(1.0, (step + 1) / 10)
    return 0.01 * warm * 0.5 * (1 + math.cos(math.pi * step / STEPS))


def main():
    torch.manual_seed(20)
    device = torch.device("cuda")
    xs = torch.randn(STEPS, BATCH, 12).to(device)
    ts = torch.tanh(xs[..., :3].sum(-1, keepdim=True))
    rates = torch.tensor([schedule(s) for s in range(STEPS)]).to(device)
    loop = Loop(device)
    loop.record(xs[0], ts[0])
    for s in range(STEPS):
        loop.step(xs[s], ts[s], rates[s])
    print(f"mean loss {loop.losses.item() / STEPS:.5f}")


if __name__ == "__main__":
    main()

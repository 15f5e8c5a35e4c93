"""Sixteen experts on the host, four resident on the device; a manager keeps the busy ones resident."""

import torch
import torch.nn as nn

EXPERTS, RESIDENT, WIDTH = 16, 4, 32


class Slot(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH, WIDTH), requires_grad=False)

    def forward(self, x):
        return torch.nn.functional.silu(x @ self.weight)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS)
        self.slots = nn.ModuleList(Slot() for _ in range(RESIDENT))
        self.register_buffer("resident", torch.arange(RESIDENT))
        self.register_buffer("usage", torch.zeros(EXPERTS))

    def forward(self, x):
        share = self.router(x).softmax(-1)
        self.usage.add_(share.sum(0))
        near = share.index_select(1, self.resident)
        near = near / near.sum(-1, keepdim=True)
        mixed = [near[:, place : place + 1] * slot(x) for place, slot in enumerate(self.slots)]
        return torch.stack(mixed).sum(0)


class Manager:
    def __init__(self, layer, host):
        self.layer = layer
        self.host = host
        self.places = [None] * RESIDENT

    def load(self, place, expert):
        weight = self.host[expert].to("cuda")
        self.layer.slots[place].weight = nn.Parameter(weight, requires_grad=False)
        self.layer.resident[place].fill_(expert)
        self.places[place] = expert

    def rebalance(self):
        busy = self.layer.usage.topk(RESIDENT).indices.tolist()
        free = [place for place, expert in enumerate(self.places) if expert not in busy]
        for expert in busy:
            if expert not in self.places:
                self.load(free.pop(), expert)
        self.layer.usage = torch.zeros_like(self.layer.usage)


class Runner:
    def __init__(self, layer, batch):
        self.layer = layer
        self.x = torch.zeros(batch, WIDTH, device="cuda")

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.layer(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.layer(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


@torch.no_grad()
def main():
    torch.manual_seed(14)
    layer = Layer().cuda()
    manager = Manager(layer, [torch.randn(WIDTH, WIDTH) * 0.1 for _ in range(EXPERTS)])
    for place in range(RESIDENT):
        manager.load(place, place)
    runner = Runner(layer, 24)
    runner.capture()
    total = torch.zeros((), device="cuda")
    for step in range(24):
        drift = torch.randn(WIDTH, device="cuda") * (step // 6)
        total += runner(torch.randn(24, WIDTH, device="cuda") + drift).square().mean()
        manager.rebalance()
    torch.save(total, "total.pt")


if __name__ == "__main__":
    main()

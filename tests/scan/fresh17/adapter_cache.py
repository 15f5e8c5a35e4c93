"""A linear layer whose low-rank adapter changes between requests."""
from collections import OrderedDict

import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.a = torch.zeros(width, rank)
        self.b = torch.zeros(rank, width)
        self.scale = 1.0

    def attach(self, weights, scale):
        self.a, self.b = weights
        self.scale = scale

    def forward(self, x, style):
        return self.base(x) + (x @ self.a) @ self.b * self.scale + style


class StyleBank:
    def __init__(self, room, width, device):
        self.room, self.width, self.device = room, width, device
        self.held = OrderedDict()

    def get(self, name):
        if name not in self.held:
            gen = torch.Generator(device=self.device).manual_seed(len(name))
            self.held[name] = torch.randn(self.width, device=self.device, generator=gen)
            if len(self.held) > self.room:
                self.held.popitem(last=False)
        return self.held[name]


class Endpoint:
    def __init__(self, layer, bank, device, rows=4, width=24):
        self.layer, self.bank = layer, bank
        self.x = torch.zeros(rows, width, device=device)
        self.stream = torch.cuda.Stream(device)
        self.ready = {}

    def _record(self, style):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.layer(self.x, self.bank.get(style))
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            y = self.layer(self.x, self.bank.get(style))
        return graph, y

    def __call__(self, x, style):
        if style not in self.ready:
            self.ready[style] = self._record(style)
        graph, y = self.ready[style]
        self.x.copy_(x)
        graph.replay()
        return y.clone()


@torch.no_grad()
def main(device="cuda"):
    torch.manual_seed(0)
    device = torch.device(device)
    layer = Adapted(24, 4).to(device)
    shelf = [(torch.randn(24, 4, device=device), torch.randn(4, 24, device=device)) for _ in range(3)]
    layer.attach(shelf[0], 1.0)
    serve = Endpoint(layer, StyleBank(2, 24, device), device)
    results = []
    for turn in range(12):
        layer.attach(shelf[turn % 3], 0.5 + 0.1 * (turn % 3))
        results.append(serve(torch.randn(4, 24, device=device), "s" * (1 + turn % 4)))
    print(torch.stack(results).mean())


if __name__ == "__main__":
    main()

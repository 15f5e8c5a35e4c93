"""A diffusion-style augmenter that owns generators and registers them with its graph."""
import contextlib
import random

import torch
from torch import nn


class Streams:
    """Named random streams on one device."""

    def __init__(self, device, **seeds):
        self.device = device
        self.generators = {}
        for name, seed in seeds.items():
            self.generators[name] = torch.Generator(device=device).manual_seed(seed)

    def __getattr__(self, name):
        try:
            return self.__dict__["generators"][name]
        except KeyError:
            raise AttributeError(name) from None

    def attach(self, graph):
        for generator in self.generators.values():
            graph.register_generator_state(generator)

    def reseed(self, base):
        for i, name in enumerate(sorted(self.generators)):
            self.generators[name].manual_seed(base + i)


class Corrupt(nn.Module):
    def __init__(self, streams, sigma=0.1, drop=0.2):
        super().__init__()
        self.streams = streams
        self.sigma, self.drop = sigma, drop

    def forward(self, x):
        eps = torch.randn(x.shape, generator=self.streams.gauss, device=x.device)
        keep = torch.rand(x.shape, generator=self.streams.drop, device=x.device) > self.drop
        return (x + self.sigma * eps) * keep


class Autoencoder(nn.Module):
    def __init__(self, corrupt, dim=64):
        super().__init__()
        self.corrupt = corrupt
        self.net = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return (self.net(self.corrupt(x)) - x).square().mean()


@contextlib.contextmanager
def on_side(device):
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        yield side
    torch.cuda.current_stream(device).wait_stream(side)


def train(data, epochs, device, batch=256, seed=0):
    streams = Streams(device, gauss=seed, drop=seed + 1)
    model = Autoencoder(Corrupt(streams, 0.2), data.shape[1]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)
    x = torch.zeros(batch, data.shape[1], device=device)

    def step():
        opt.zero_grad(set_to_none=True)
        loss = model(x)
        loss.backward()
        opt.step()
        return loss.detach()

    with on_side(device) as side:
        for _ in range(4):
            step()
    graph = torch.cuda.CUDAGraph()
    streams.attach(graph)
    with torch.cuda.graph(graph, stream=side):
        loss = step()

    data = data.to(device)
    curve = []
    rng = random.Random(seed)
    for epoch in range(epochs):
        streams.reseed(1000 * epoch)
        total = torch.zeros((), device=device)
        order = list(range(0, len(data) - batch + 1, batch))
        rng.shuffle(order)
        for start in order:
            x.copy_(data[start : start + batch])
            graph.replay()
            total += loss
        curve.append(total / len(order))
    return model, torch.stack(curve).tolist()

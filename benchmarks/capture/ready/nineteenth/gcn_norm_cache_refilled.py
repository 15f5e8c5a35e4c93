"""A graph convolution with a cached normalisation: sound, the cache is refilled in place when the graph is rewired."""
import torch

import graphsafe


class CachedConvolution(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self._cached = None

    @staticmethod
    def normalise(adjacency):
        degrees = adjacency.sum(-1).clamp(min=1).rsqrt()
        return degrees.unsqueeze(1) * adjacency * degrees

    def forward(self, x, adjacency):
        if self._cached is None:
            self._cached = self.normalise(adjacency)
        return self._cached @ (x @ self.weight)


def build(device, nodes=12, dim=6):
    adjacency = torch.eye(nodes, device=device) + torch.eye(nodes, device=device).roll(1, 0)
    layers = torch.nn.ModuleList([CachedConvolution(dim, dim), CachedConvolution(dim, 3)]).to(device)

    @torch.no_grad()
    def step(x):
        return layers[1](torch.relu(layers[0](x, adjacency)), adjacency)

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randn(nodes, dim))
        if k % 40 == 38:
            adjacency.copy_((torch.rand(nodes, nodes) < 0.3).float() + torch.eye(nodes))
            for layer in layers:
                layer._cached.copy_(layer.normalise(adjacency))

    return graphsafe.Step(step, (torch.randn(nodes, dim, device=device),), refresh=refresh)

"""Fourteen sound steps that add with float atomics, so that two runs of one step differ in their last bits.

Each adds thousands of values to few places, in an order that a GPU chooses anew: in `forward`, in a backward pass, or
with a graph's weights kept from an earlier step.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import graphsafe

NODES, EDGES, WIDTH = 64, 20_000, 16


def edges(device):
    return torch.randint(0, NODES, (2, EDGES), device=device)


def build_summed_messages(device):
    def step(x, edge):
        return torch.zeros_like(x).index_add_(0, edge[1], x[edge[0]])

    return step, (torch.randn(NODES, WIDTH, device=device), edges(device))


def build_mean_of_neighbours(device):
    def step(x, edge):
        total = x.new_zeros(NODES, WIDTH).scatter_add_(0, edge[1, :, None].expand(-1, WIDTH), x[edge[0]])
        count = x.new_zeros(NODES).scatter_add_(0, edge[1], x.new_ones(EDGES))
        return total / count.clamp(min=1.0)[:, None]

    return step, (torch.randn(NODES, WIDTH, device=device), edges(device))


def build_reduced_scatter(device):
    def step(values, place):
        return torch.zeros(NODES, device=values.device).scatter_reduce_(0, place, values, "mean", include_self=False)

    return step, (torch.randn(EDGES, device=device), torch.randint(0, NODES, (EDGES,), device=device))


def build_accumulated_put(device):
    def step(image, rows, columns, values):
        return image.clone().index_put_((rows, columns), values, accumulate=True)

    places = [torch.randint(0, 8, (EDGES,), device=device) for _ in range(2)]
    return step, (torch.randn(8, 8, device=device), *places, torch.randn(EDGES, device=device))


class Attention(nn.Module):
    """Softmax over each node's edges."""

    def __init__(self):
        super().__init__()
        self.project, self.score = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, 1)

    def forward(self, x, edge):
        h = self.project(x)
        score = F.leaky_relu(self.score(torch.cat([h[edge[0]], h[edge[1]]], dim=-1))).squeeze(-1)
        top = score.new_full((NODES,), float("-inf")).scatter_reduce_(0, edge[1], score, "amax")
        weight = (score - top[edge[1]]).exp()
        norm = weight.new_zeros(NODES).index_add_(0, edge[1], weight)
        return torch.zeros_like(h).index_add_(0, edge[1], h[edge[0]] * (weight / norm[edge[1]])[:, None])


def build_graph_attention(device):
    return Attention().to(device).requires_grad_(False), (torch.randn(NODES, WIDTH, device=device), edges(device))


class Convolution(nn.Module):
    """Keeps the normalised weights of the first step's edges if asked to."""

    def __init__(self, keep=False):
        super().__init__()
        self.linear, self.keep, self.norm = nn.Linear(WIDTH, WIDTH), keep, None

    def weights(self, edge, x):
        if self.norm is not None:
            return self.norm
        degree = x.new_zeros(NODES).index_add_(0, edge[1], x.new_ones(EDGES)).clamp(min=1.0).rsqrt()
        norm = degree[edge[0]] * degree[edge[1]]
        if self.keep:
            self.norm = norm.detach()
        return norm

    def forward(self, x, edge):
        h = self.linear(x)
        return torch.zeros_like(h).index_add_(0, edge[1], h[edge[0]] * self.weights(edge, x)[:, None])


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, *batch):
        *inputs, wanted = batch
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(*inputs), wanted)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def trained(model, device, *inputs, out=(NODES, WIDTH)):
    model = model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    return Trainer(model, optimizer).step, (*inputs, torch.randn(*out, device=device))


def build_trained_convolution(device):
    return trained(Convolution(), device, torch.randn(NODES, WIDTH, device=device), edges(device))


def build_trained_attention(device):
    return trained(Attention(), device, torch.randn(NODES, WIDTH, device=device), edges(device))


def build_kept_weights(device):
    """The edges are a buffer, so the weights of the first step stay right."""
    convolution, edge = Convolution(keep=True).to(device).requires_grad_(False), edges(device)
    convolution.register_buffer("edge", edge)
    return lambda x: convolution(x, convolution.edge), (torch.randn(NODES, WIDTH, device=device),)


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(32, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        return self.head(self.table(ids).mean(dim=1))


def build_trained_embedding(device):
    model = Bag().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, capturable=True)
    ids = torch.randint(0, 32, (256, 40), device=device)
    return Trainer(model, optimizer).step, (ids, torch.randn(256, WIDTH, device=device))


class Sampler(nn.Module):
    """Samples an image at learned places; the backward pass adds to the image's few pixels."""

    def __init__(self):
        super().__init__()
        self.image, self.shift = nn.Parameter(torch.randn(1, 4, 8, 8)), nn.Parameter(torch.zeros(2))

    def forward(self, grid):
        return F.grid_sample(self.image, grid + self.shift, align_corners=True)


def build_trained_sampler(device):
    grid = torch.rand(1, 128, 128, 2, device=device) * 2 - 1
    return trained(Sampler(), device, grid, out=(1, 4, 128, 128))


def build_splatted_points(device):
    def step(points, values):
        cell = ((points.clamp(-1, 1) + 1) * 3.5).long()
        flat = cell[:, 0] * 8 + cell[:, 1]
        grid = torch.zeros(64, 4, device=points.device).index_add_(0, flat, values)
        return F.avg_pool2d(grid.T.reshape(1, 4, 8, 8), 2)

    return step, (torch.rand(EDGES, 2, device=device) * 2 - 1, torch.randn(EDGES, 4, device=device))


def build_running_histogram(device):
    """The histogram is state that the step leaves to the next one."""
    total = torch.zeros(NODES, device=device)

    def step(place, weight):
        total.mul_(0.9).index_add_(0, place, weight)
        return total / total.abs().sum()

    return step, (torch.randint(0, NODES, (EDGES,), device=device), torch.rand(EDGES, device=device))


def build_trained_words(device):
    """Plain gradient descent; each refresh draws other words, so that many rounds are compared."""
    embed, head = nn.Embedding(50, 8, padding_idx=0).to(device), nn.Linear(8, 2).to(device)
    weights = [*embed.parameters(), *head.parameters()]

    def step(words, kind):
        loss = F.cross_entropy(head(embed(words).mean(1)), kind)
        with torch.no_grad():
            torch._foreach_add_(weights, torch.autograd.grad(loss, weights), alpha=-0.5)
        return loss.detach()

    def refresh(args, kwargs, k):
        args[0].copy_(torch.randint(50, (64, 64)))
        args[1].copy_((args[0][:, 0] > 20).long())

    words = torch.randint(50, (64, 64), device=device)
    return graphsafe.Step(step, (words, torch.zeros(64, dtype=torch.long, device=device)), refresh=refresh)


def build_refreshed_messages(device):
    def step(x, edge):
        return x + 0.1 * torch.zeros_like(x).index_add_(0, edge[1], x[edge[0]])

    def refresh(args, kwargs, k):
        args[0].normal_()
        args[1].random_(NODES)

    return graphsafe.Step(step, (torch.randn(NODES, WIDTH, device=device), edges(device)), refresh=refresh)

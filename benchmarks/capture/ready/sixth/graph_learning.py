"""Message passing layers and samplers."""
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def _ring(nodes, hops, device):
    src = torch.arange(nodes, device=device).repeat(hops)
    shift = torch.arange(1, hops + 1, device=device).repeat_interleave(nodes, output_size=nodes * hops)
    return torch.stack([src, (src + shift) % nodes])


class NeighbourSampler:
    def __init__(self, nodes, keep):
        self.nodes, self.keep = nodes, keep

    def __call__(self, features):
        order = np.random.permutation(self.nodes)[: self.keep]
        chosen = torch.from_numpy(order).to(features.device)
        return features.index_select(0, chosen).cumsum(0)


def build_neighbour_sampler(device):
    return NeighbourSampler(40, 10), (torch.randn(40, 6, device=device),)


class EdgeFilter(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.edges = _ring(24, 3, device)
        self.gate = nn.Linear(8, 1, device=device)

    @torch.no_grad()
    def forward(self, x):
        strength = self.gate(x[self.edges[0]] + x[self.edges[1]]).squeeze(-1)
        src, dst = self.edges[:, strength > 0.0]
        return torch.zeros_like(x).index_add_(0, dst, x[src])


def build_edge_filter(device):
    return EdgeFilter(device), (torch.randn(24, 8, device=device),)


class GrowingNet(nn.Module):
    def __init__(self, device, depth=5, every=50):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8, device=device) for _ in range(depth))
        self.adjacency = torch.rand(20, 20, device=device).softmax(1)
        self.every = every
        self.calls = 0

    @torch.no_grad()
    def forward(self, x):
        if self.training:
            self.calls += 1
        for layer in self.layers[: 1 + self.calls // self.every]:
            x = torch.tanh(self.adjacency @ layer(x)) + 0.5 * x
        return x


def build_growing_net(device):
    return GrowingNet(device).train(), (torch.randn(20, 8, device=device),)


class TemporalMemory:
    def __init__(self, nodes, width, device):
        self.slots = types.SimpleNamespace(short=torch.zeros(nodes, width, device=device), long=torch.zeros(nodes, width, device=device))
        self.mix = torch.rand(nodes, nodes, device=device).softmax(1)

    def __call__(self, messages):
        for name, decay in (("short", 0.5), ("long", 0.95)):
            old = getattr(self.slots, name)
            setattr(self.slots, name, decay * old + (1.0 - decay) * (self.mix @ messages))
        return torch.cat([self.slots.short, self.slots.long], dim=1)


def build_temporal_memory(device):
    return TemporalMemory(16, 6, device), (torch.randn(16, 6, device=device),)


def build_degree_norm(device):
    weight = torch.randn(8, 8, device=device)

    def step(x, src, dst):
        degree = torch.bincount(dst, minlength=x.shape[0]).clamp(min=1)
        gathered = torch.zeros_like(x).index_add_(0, dst, x[src])
        return (gathered / degree.unsqueeze(1)) @ weight

    return step, (torch.randn(12, 8, device=device), torch.randint(0, 12, (60,), device=device), torch.randint(0, 12, (60,), device=device))


class Ranker:
    def __init__(self, nodes, device):
        self.rank = torch.full((nodes,), 1.0 / nodes, device=device)
        self.damping = torch.tensor(0.95)
        self.floor = torch.tensor(0.3)

    def __call__(self, transition):
        matrix = transition / transition.sum(0, keepdim=True)
        spread = matrix @ self.rank
        self.rank.copy_(spread * self.damping + (1.0 - self.damping) / self.rank.numel())
        torch.maximum(self.damping.mul_(0.995), self.floor, out=self.damping)
        return self.rank * self.rank.numel()


def build_ranker(device):
    return Ranker(30, device), (torch.rand(30, 30, device=device) + 0.01,)


def build_max_pool_layer(device):
    edges = _ring(18, 4, device)
    index = edges[1].unsqueeze(1).expand(-1, 5)

    def step(x):
        messages = x[edges[0]] * 0.5
        pooled = torch.full_like(x, -10.0).scatter_reduce(0, index, messages, reduce="amax", include_self=True)
        return torch.maximum(pooled, x)

    return step, (torch.randn(18, 5, device=device),)


class AttentionLayer(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.edges = _ring(15, 5, device)
        self.query, self.key = nn.Linear(6, 4, device=device), nn.Linear(6, 4, device=device)
        self.shapes = []
        self.register_forward_hook(self._note)

    def _note(self, module, args, output):
        self.shapes.append(tuple(output.shape))
        del self.shapes[:-10]

    @torch.no_grad()
    def forward(self, x):
        src, dst = self.edges
        score = (self.query(x)[dst] * self.key(x)[src]).sum(-1).tanh().exp()
        total = torch.zeros(x.shape[0], device=x.device).scatter_add_(0, dst, score)
        share = (score / total[dst]).unsqueeze(1)
        return torch.zeros_like(x).index_add_(0, dst, share * x[src])


def build_attention_layer(device):
    return AttentionLayer(device), (torch.randn(15, 6, device=device),)


class LabelSpread:
    def __init__(self, nodes, classes, device):
        self.belief = torch.full((nodes, classes), 1.0 / classes, device=device)
        self.known = (torch.arange(nodes, device=device) % 3 == 0).unsqueeze(1)
        self.scratch = torch.empty_like(self.belief)

    def __call__(self, affinity, seeds):
        for _ in range(3):
            torch.matmul(affinity.softmax(1), self.belief, out=self.scratch)
            self.belief.copy_(torch.where(self.known, seeds.softmax(1), self.scratch))
        return self.belief.clone()


def build_label_spread(device):
    return LabelSpread(21, 4, device), (torch.randn(21, 21, device=device), torch.randn(21, 4, device=device))


class EdgeDropout(nn.Module):
    def __init__(self, device, rate=0.25):
        super().__init__()
        self.rate = rate
        self.epoch = 0
        self.history = {}
        self.register_buffer("smooth", torch.zeros(14, 14, device=device))

    @torch.no_grad()
    def forward(self, adjacency, x):
        self.epoch += 1
        self.history[self.epoch % 7] = self.epoch
        keep = torch.rand_like(adjacency) >= self.rate if self.training else torch.ones_like(adjacency)
        self.smooth.lerp_(adjacency * keep / (1.0 - self.rate), 0.2)
        return F.relu(self.smooth @ x)


def build_edge_dropout(device):
    return EdgeDropout(device).train(), (torch.rand(14, 14, device=device), torch.randn(14, 3, device=device))

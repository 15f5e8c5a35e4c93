"""Graph networks, mixtures of experts and their batches."""
import functools
import math
import random
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch

import graphsafe


class GraphBatch:
    def __init__(self, nodes, edges, dim, device):
        self.x = torch.randn(nodes, dim, device=device)
        self.edge_index = torch.randint(0, nodes, (2, edges), device=device)

    @functools.cached_property
    def norm(self):
        degree = torch.zeros(self.x.shape[0], device=self.x.device)
        degree.index_add_(0, self.edge_index[1], torch.ones_like(self.edge_index[1], dtype=degree.dtype))
        return degree.clamp_min(1).rsqrt()


class GraphConv(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = torch.nn.Linear(dim, dim)

    @torch.no_grad()
    def forward(self, batch):
        h = self.lin(batch.x) * batch.norm[:, None]
        src, dst = batch.edge_index
        return torch.zeros_like(h).index_add_(0, dst, h[src]) * batch.norm[:, None]


def build_graph_conv(device):
    return GraphConv(6).to(device), (GraphBatch(10, 40, 6, device),)


def build_ragged_readout(device):
    gate = torch.nn.Linear(5, 1).to(device).requires_grad_(False)
    base = np.array([3, 9, 1, 6, 5])

    def readout(nodes, sizes):
        weighted = nodes * torch.sigmoid(gate(nodes))
        return torch.stack([part.sum(0) for part in torch.split(weighted, sizes.tolist())])

    def refresh(args, kwargs, k):
        rng = np.random.default_rng(k)
        args[0].copy_(torch.from_numpy(rng.standard_normal((24, 5)).astype(np.float32)))
        args[1][:] = rng.permutation(base)

    return graphsafe.Step(readout, (torch.randn(24, 5, device=device), base.copy()), refresh=refresh)


@dataclass(slots=True)
class Ticket:
    user: int
    expert: torch.Tensor
    tokens: torch.Tensor


class ExpertServer(torch.nn.Module):
    def __init__(self, experts, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(experts, dim, dim) / dim**0.5)

    @torch.no_grad()
    def forward(self, ticket):
        return torch.relu(ticket.tokens @ self.weight[ticket.expert])


def build_expert_server(device):
    ticket = Ticket(17, torch.tensor(5), torch.randn(4, 8, device=device))
    return ExpertServer(6, 8).to(device), (ticket,)


class InteractionMemory:
    """Node memory of a temporal graph, wiped when the interaction log is flushed."""

    def __init__(self, nodes, dim, device, capacity=90):
        self.state = torch.zeros(nodes, dim, device=device)
        self.log, self.capacity = {}, capacity

    def update(self, node, message):
        self.log[len(self.log)] = tuple(message.shape)
        if len(self.log) > self.capacity:
            self.state.zero_()
            self.log.clear()
        self.state.index_add_(0, node, message, alpha=0.2)
        return self.state.clone()


def build_interaction_memory(device):
    memory = InteractionMemory(8, 4, device)
    return memory.update, (torch.tensor([1, 6, 0, 7], device=device), torch.randn(4, 4, device=device))


BATCHES = ContextVar("batches", default=0)


def router_temperature():
    return 2.0 if BATCHES.get() <= 45 else 0.5


def build_annealed_router(device):
    gate, experts = torch.randn(8, 4, device=device), torch.randn(4, 8, 8, device=device) * 0.3

    def route(x):
        BATCHES.set(BATCHES.get() + 1)
        share = torch.softmax(x @ gate / router_temperature(), -1)
        return torch.einsum("bd,edf,be->bf", x, experts, share)

    return route, (torch.randn(6, 8, device=device),)


class DropExperts:
    def __init__(self, n, dim, device, p=0.15):
        self.gate = torch.randn(dim, n, device=device)
        self.experts = torch.randn(n, dim, dim, device=device) * 0.3
        self.p = p

    def __call__(self, x):
        alive = [e for e in range(self.experts.shape[0]) if torch.rand(1).item() >= self.p]
        alive = alive or [0]
        score = torch.softmax(torch.stack([x @ self.gate[:, e] for e in alive], -1), -1)
        return sum(score[:, i, None] * (x @ self.experts[e]) for i, e in enumerate(alive))


def build_expert_dropout(device):
    return DropExperts(4, 8, device), (torch.randn(5, 8, device=device),)


def build_ordered_mixture(device):
    tables = torch.randn(6, 8, 8, device=device) * 0.2

    def mix(x, order):
        total = torch.zeros_like(x)
        for i in order.tolist():
            total = total + torch.tanh(x @ tables[i])
        return total / len(order)

    return mix, (torch.randn(5, 8, device=device), np.array([4, 0, 5, 2, 1, 3]))


def build_shuffled_neighbours(device):
    offsets = [-3, -2, -1, 1, 2, 3]
    weight = {o: float(math.exp(-abs(o))) for o in offsets}

    def smooth(signal):
        walk = list(offsets)
        random.shuffle(walk)
        out = signal.clone()
        for o in walk:
            out.add_(torch.roll(signal, o, -1), alpha=weight[o])
        return out / (1 + sum(weight.values()))

    return smooth, (torch.randn(3, 32, device=device),)


class Cosine:
    def __init__(self, n, device):
        self.n, self.device = n, device

    @functools.cached_property
    def basis(self):
        k = torch.arange(self.n, device=self.device, dtype=torch.float32)
        return torch.cos(math.pi / self.n * torch.outer(k + 0.5, k)) * math.sqrt(2 / self.n)

    def compress(self, x, keep):
        spectrum = x @ self.basis
        kept = torch.where(keep, spectrum, torch.zeros_like(spectrum))
        return kept @ self.basis.t(), kept.square().sum(-1)


def build_cosine_compressor(device):
    return Cosine(24, device).compress, (torch.randn(4, 24, device=device), torch.rand(4, 24, device=device) > 0.5)


def build_node_normaliser(device):
    net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.LazyBatchNorm1d(), torch.nn.ReLU(), torch.nn.Linear(12, 3))
    net = net.to(device).train()
    for p in (*net[0].parameters(), *net[3].parameters()):
        p.requires_grad_(False)
    return net, (torch.randn(20, 6, device=device) * 2 + 1,)

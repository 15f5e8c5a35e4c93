"""Steps that use CUDA graphs already."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

try:
    from breakable_cuda_graphs import no_graph
except ImportError:

    def no_graph(function):
        return function


class Attention(nn.Module):
    """Attention over a cache that grows; `marked` says which parts of it are marked."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.register_buffer("mixed", torch.zeros(1, width))
        self.keys = torch.zeros(0, width)

    def append(self, hidden):
        self.keys = torch.cat([self.keys, hidden])

    @no_graph
    def append_marked(self, hidden):
        self.keys = torch.cat([self.keys, hidden])

    def mix(self, mixed, query):
        mixed.copy_(torch.softmax(query @ self.keys.T, dim=-1) @ self.keys)

    @no_graph
    def mix_marked(self, mixed, query):
        mixed.copy_(torch.softmax(query @ self.keys.T, dim=-1) @ self.keys)

    @no_graph
    def project_marked(self, mixed, hidden):
        mixed.copy_(torch.tanh(self.out(hidden)) * 2)


class Layer(nn.Module):
    def __init__(self, width: int, attend: str) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.attend = attend

    @torch.no_grad()
    def forward(self, x):
        hidden = self.norm(x)
        query = torch.tanh(self.attention.query(hidden))
        getattr(self, self.attend)(query, hidden)
        x = x + self.attention.out(self.attention.mixed)
        return x + self.down(F.gelu(self.up(x)))

    def all_marked(self, query, hidden):
        self.attention.append_marked(hidden)
        self.attention.mix_marked(self.attention.mixed, query)

    def attention_unmarked(self, query, hidden):
        """As in torchtitan: the cache is marked, the attention of varying length over it was forgotten."""
        self.attention.append_marked(hidden)
        self.attention.mix(self.attention.mixed, query)

    def too_much_marked(self, query, hidden):
        self.all_marked(query, hidden)
        self.attention.project_marked(self.attention.mixed, hidden)


def _layer(device, attend):
    layer = Layer(16, attend).to(device)
    layer.attention.keys = layer.attention.keys.to(device)
    return layer, (torch.randn(1, 16, device=device),)


def all_marked(device):
    return _layer(device, "all_marked")


def attention_unmarked(device):
    return _layer(device, "attention_unmarked")


def too_much_marked(device):
    return _layer(device, "too_much_marked")


class Whole(nn.Module):
    """Nothing in it stands in the way of a graph, and a part is marked all the same."""

    @no_graph
    def scale(self, out, x):
        out.copy_(torch.tanh(x) * 2)

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.register_buffer("scaled", torch.zeros(4, width))

    @torch.no_grad()
    def forward(self, x):
        hidden = self.layer(x)
        self.scale(self.scaled, hidden)
        return torch.relu(self.scaled) + hidden


def whole(device):
    return Whole(8).to(device), (torch.randn(4, 8, device=device),)


class Expert(nn.Module):
    """Counts its calls on the host, and uses the count: a graph of it goes on using the one of the capture."""

    def __init__(self, width: int, counts: bool) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.calls, self.counts = 0, counts

    def forward(self, x):
        hidden = F.gelu(self.up(x))
        if self.counts:
            self.calls += 1
            hidden = hidden * (1.0 + self.calls)
        return self.down(hidden)


class Graphed(nn.Module):
    """One part is a graph of its own, and what follows reads the device."""

    def __init__(self, width: int, device, counts: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width).to(device)
        self.expert = Expert(width, counts).to(device).requires_grad_(False).eval()
        self.expert = torch.cuda.make_graphed_callables(self.expert, (torch.randn(4, width, device=device),))
        self.largest = 0.0

    @torch.no_grad()
    def forward(self, x):
        hidden = torch.tanh(self.norm(x)) * 2
        hidden = hidden + self.expert(hidden)
        self.largest = hidden.max().item()
        return torch.relu(hidden + 1) * 3


def graphed(device):
    return Graphed(8, device, counts=False), (torch.randn(4, 8, device=device),)


def graphed_wrongly(device):
    return Graphed(8, device, counts=True), (torch.randn(4, 8, device=device),)


def captured_by_hand(device):
    """The constructor captures; the step replays: there is no eager step to compare with."""
    module, x = nn.Linear(8, 8).to(device), torch.randn(4, 8, device=device)
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device)
    with torch.no_grad(), torch.cuda.stream(stream):
        module(x)
        with torch.cuda.graph(graph, stream=stream):
            out = torch.tanh(module(x)) * 2
    torch.cuda.current_stream(device).wait_stream(stream)

    def step(x):
        graph.replay()
        return torch.relu(out + out.max().item())

    return step, (x,)

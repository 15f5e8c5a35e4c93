"""Message passing over small dense graphs."""
import torch
from torch import nn


def random_graph(device, nodes=20):
    upper = (torch.rand(nodes, nodes, device=device) < 0.3).triu(1)
    return (upper | upper.t()).to(torch.int64)


class PathFeatures:
    def __init__(self, device, count):
        self.w = torch.randn(3, 8, device=device)
        self.count = count

    def __call__(self, adjacency):
        two = self.count(adjacency)
        degree = adjacency.sum(dim=-1)
        triangles = (two * adjacency).sum(dim=-1)
        features = torch.stack([degree, two.diagonal(), triangles], dim=-1)
        return torch.tanh(features.float() / 20 @ self.w)


def walks(adjacency):
    return adjacency @ adjacency.t()


def common(adjacency):
    return (adjacency.unsqueeze(1) * adjacency.unsqueeze(0)).sum(dim=-1)


def build_walk_features(device):
    return PathFeatures(device, walks), (random_graph(device),)


def build_common_features(device):
    return PathFeatures(device, common), (random_graph(device),)


class Readout:
    """Centre the pooled vectors of a batch of graphs."""

    table = None

    def __init__(self, device, batch, dim=16):
        if Readout.table is None or Readout.table.shape[0] < batch:
            Readout.table = torch.zeros(batch, dim, device=device)
        self.batch = batch
        self.w = torch.randn(dim, dim, device=device) / 4

    def __call__(self, nodes):
        Readout.table[: self.batch].copy_(torch.tanh(nodes @ self.w).mean(dim=1))
        whole = Readout.table.mean(dim=0)
        return Readout.table[: self.batch] - whole


def build_readout(device, batch=4):
    return Readout(device, batch), (torch.randn(batch, 10, 16, device=device),)


class Diffusing:
    """Normalised diffusion of node states."""

    def __init__(self, device, nodes=20, dim=8):
        self.front = torch.zeros(nodes, dim, device=device)
        self.back = torch.zeros(nodes, dim, device=device)
        self.w = torch.linalg.qr(torch.randn(dim, dim)).Q.to(device)

    def __call__(self, adjacency, source):
        spread = adjacency / adjacency.sum(dim=-1, keepdim=True)
        self.back.copy_(0.9 * (spread @ self.front @ self.w) + 0.9 * self.front + source)
        self.back.div_(self.back.norm(dim=-1, keepdim=True) + 1e-6)
        torch.utils.swap_tensors(self.front, self.back)
        return self.front.clone()


def build_diffusing(device):
    return Diffusing(device), (torch.rand(20, 20, device=device) + 0.1, torch.randn(20, 8, device=device) / 5)


class NestedMessages(nn.Module):
    def __init__(self, dim=12, deepest=3):
        super().__init__()
        self.mix = nn.Linear(dim, dim)
        self.deepest = deepest
        self.depth = 0

    @torch.no_grad()
    def forward(self, x, adjacency):
        self.depth += 1
        try:
            gathered = torch.relu(self.mix(adjacency @ x / adjacency.shape[0]))
            if self.depth < self.deepest:
                gathered = gathered + self(gathered, adjacency)
            return x + gathered / self.depth
        finally:
            self.depth -= 1


def build_nested_messages(device):
    return NestedMessages().to(device), (torch.randn(20, 12, device=device), torch.rand(20, 20, device=device))

"""Training steps and graph nets that one graph can replay."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def network(device):
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(device)


def batch(device):
    return torch.randn(16, 8, device=device), torch.randn(16, 1, device=device)


class Trainer:
    """Forward, backward and update."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build_capturable_adamw(device):
    model = network(device)
    return Trainer(model, torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)).step, batch(device)


def build_plain_sgd(device):
    model = network(device)
    return Trainer(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)).step, batch(device)


class ClippingTrainer(Trainer):
    """Clips gradients without looking whether they are finite."""

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach(), norm


def build_clipped_sgd(device):
    model = network(device)
    return ClippingTrainer(model, torch.optim.SGD(model.parameters(), lr=0.05)).step, batch(device)


class Rematerialized(nn.Module):
    """Activation checkpointing with the backward pass in the step."""

    def __init__(self, width):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        for parameter in self.parameters():
            parameter.grad = None
        y = checkpoint(self.block, x, use_reentrant=False)
        y.square().mean().backward()
        return y.detach(), self.block[0].weight.grad


def build_rematerialized(device):
    return Rematerialized(8).to(device), (torch.randn(4, 8, device=device),)


class BatchNorm(nn.Module):
    """Batch statistics in training mode: a counter on the device and running averages in place."""

    def __init__(self, channels):
        super().__init__()
        self.convolution = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    @torch.no_grad()
    def forward(self, image):
        return F.relu(self.norm(self.convolution(image)))


def build_batch_norm(device):
    return BatchNorm(4).to(device), (torch.randn(2, 3, 8, 8, device=device),)


class GraphConvolution(nn.Module):
    """Messages along edges, added up with float atomics."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x, edges):
        source, target = edges
        messages = self.layer(x).index_select(0, source)
        out = torch.zeros_like(x).index_add_(0, target, messages)
        degree = x.new_zeros(x.shape[0]).index_add_(0, target, x.new_ones(target.shape[0]))
        return out / degree.clamp(min=1).unsqueeze(1)


def build_graph_convolution(device):
    edges = torch.randint(0, 64, (2, 4096), device=device)
    return GraphConvolution(32).to(device), (torch.randn(64, 32, device=device), edges)


class SplattedGrid(nn.Module):
    """Points are added into a grid, many into the same cell."""

    def forward(self, points, values):
        cell = (points.clamp(0, 0.999) * 8).long()
        index = cell[:, 0] * 8 + cell[:, 1]
        return values.new_zeros(64).scatter_add_(0, index, values).view(8, 8)


def build_splatted_grid(device):
    return SplattedGrid(), (torch.rand(8192, 2, device=device), torch.randn(8192, device=device))


class AttentionGraph(nn.Module):
    """Attention over the edges of a graph, with scatter reductions for maximum and sum."""

    def __init__(self, width):
        super().__init__()
        self.score, self.value = nn.Linear(2 * width, 1), nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x, edges):
        source, target = edges
        score = self.score(torch.cat([x[source], x[target]], dim=-1)).squeeze(-1)
        peak = torch.full_like(x[:, 0], -1e9).scatter_reduce(0, target, score, "amax")
        weight = (score - peak[target]).exp()
        total = torch.zeros_like(peak).scatter_add(0, target, weight)
        message = self.value(x)[source] * (weight / total[target]).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, target, message)


def build_attention_graph(device):
    edges = torch.randint(0, 32, (2, 2048), device=device)
    return AttentionGraph(16).to(device), (torch.randn(32, 16, device=device), edges)


class SlowTeacher(nn.Module):
    """A teacher that follows a student in place."""

    def __init__(self, width):
        super().__init__()
        self.student, self.teacher = nn.Linear(width, width), nn.Linear(width, width)

    @torch.no_grad()
    def forward(self, x):
        torch._foreach_lerp_(list(self.teacher.parameters()), list(self.student.parameters()), 0.01)
        return self.teacher(x)


def build_slow_teacher(device):
    return SlowTeacher(8).to(device), (torch.randn(4, 8, device=device),)

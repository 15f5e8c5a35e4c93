"""Graph attention on a batch of edges: softmax over each node's neighbours by scatter_reduce; no refresh is given."""
import torch
import torch.nn as nn

import graphsafe


class GraphAttention(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, width * heads, bias=False)
        self.left, self.right = nn.Parameter(torch.randn(heads, width) / 4), nn.Parameter(torch.randn(heads, width) / 4)

    def forward(self, x, edges):
        n = x.shape[0]
        source, target = edges
        h = self.project(x).view(n, self.heads, -1)
        score = (h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target]
        score = torch.nn.functional.leaky_relu(score, 0.2)
        index = target[:, None].expand_as(score)
        top = torch.full((n, self.heads), -1e30, device=x.device).scatter_reduce(0, index, score, "amax")
        weight = (score - top[target]).exp()
        norm = torch.zeros_like(top).index_add(0, target, weight)
        message = h[source] * (weight / norm[target])[..., None]
        out = torch.zeros_like(h).index_add_(0, target, message)
        return out.flatten(1), norm


def build(device):
    layer = GraphAttention().to(device).eval().requires_grad_(False)
    x = torch.randn(90, 16, device=device)
    edges = torch.randint(90, (2, 1200), device=device)
    edges[:, :2] = torch.tensor([[0, 89], [89, 0]])
    return layer, (x, edges)

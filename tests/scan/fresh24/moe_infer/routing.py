import torch
import torch.nn.functional as F


class Assignment:
    """Tokens sorted by expert, and how to put them back."""

    def __init__(self, order, counts, weights, top_k):
        self.order = order
        self.counts = counts
        self.weights = weights
        self.top_k = top_k

    def gather(self, x):
        return x.index_select(0, torch.div(self.order, self.top_k, rounding_mode="floor"))

    def scatter(self, y, tokens):
        flat = torch.empty_like(y).index_copy_(0, self.order, y)
        return (flat.unflatten(0, (tokens, self.top_k)) * self.weights.unsqueeze(-1)).sum(1)


class Router:
    def __init__(self, dim, experts, top_k, device):
        self.experts = experts
        self.top_k = top_k
        self.weight = torch.randn(experts, dim, device=device) / dim ** 0.5
        self.center = None

    def logits(self, x):
        if self.center is None:
            self.center = x.mean(0, keepdim=True)
        return F.linear(x - self.center, self.weight)

    def assign(self, x):
        probs = self.logits(x).softmax(-1)
        weights, picked = probs.topk(self.top_k, dim=-1)
        flat = picked.reshape(-1)
        order = flat.argsort(stable=True)
        counts = torch.zeros(self.experts, dtype=torch.long, device=x.device)
        counts.scatter_add_(0, flat, torch.ones_like(flat))
        return Assignment(order, counts, weights / weights.sum(-1, keepdim=True), self.top_k)

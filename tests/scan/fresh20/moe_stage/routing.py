import torch
from torch import nn


class Router(nn.Module):
    """Top-1 router with loss-free balancing: `bias` only moves the choice, not the weight."""

    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts))
        self.capacity = 4
        self.history = []

    def forward(self, x):
        prob = self.gate(x).softmax(-1)
        choice = (prob + self.bias).argmax(-1)
        onehot = torch.nn.functional.one_hot(choice, prob.shape[-1]).float()
        place = (onehot.cumsum(0) * onehot).sum(-1)
        keep = (place <= self.capacity).float()
        load = onehot.sum(0)
        self.history.append(load)
        return choice, keep * (prob * onehot).sum(-1), load

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w_in = nn.Linear(dim, 2 * dim)
        self.w_out = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.w_out(torch.relu(self.w_in(x)))


class Model(nn.Module):
    def __init__(self, dim=16, layers=2, vocab=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(layers))
        self.lm = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, memory, scratch):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h)
        memory.mul_(0.9).add_(h, alpha=0.1)
        torch.matmul(h + memory, self.lm.weight.t(), out=scratch[: h.shape[0]])
        return scratch[: h.shape[0]].argmax(-1)

import torch
import torch.nn.functional as F


class RecurrentLM:
    """A small decoder whose only cache is one state vector for each running request."""

    def __init__(self, vocab, dim, device):
        self.embed = torch.randn(vocab, dim, device=device)
        self.w_in = torch.randn(dim, dim, device=device) / dim ** 0.5
        self.w_state = torch.randn(dim, dim, device=device) / dim ** 0.5

    def step(self, tokens, states, slots, pool, rank):
        x = self.embed[tokens]
        a, b = pool.a[slots, :rank], pool.b[slots, :, :rank]
        low = torch.bmm(a, x.unsqueeze(-1))
        delta = torch.bmm(b, low).squeeze(-1) * pool.scale[slots].unsqueeze(-1)
        new = torch.tanh(F.linear(x, self.w_in) + F.linear(states, self.w_state) + delta)
        return new @ self.embed.T, new


class StateTable:
    def __init__(self, rows, dim, device):
        self.values = torch.zeros(rows, dim, device=device)

    def read(self, rows):
        return self.values.index_select(0, rows)

    def write(self, rows, new):
        self.values.index_copy_(0, rows, new)

    def clear(self, row):
        self.values[row].zero_()

"""Structured-output decode tick: key history, grammar automaton on the device, greedy choice."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Lanes:
    token: torch.Tensor
    state: torch.Tensor
    position: torch.Tensor
    alive: torch.Tensor


class Grammar:
    def __init__(self, states, vocab, device):
        gen = torch.Generator().manual_seed(1)
        allowed = torch.rand(states, vocab, generator=gen) > 0.6
        allowed[:, 0] = True
        self.bias = torch.where(allowed, 0.0, -1e9).to(device)
        self.edges = torch.randint(0, states, (states, vocab), generator=gen).to(device)

    def advance(self, state, token):
        return self.edges[state, token]


class History:
    def __init__(self, lanes, limit, dim, device):
        self.keys = torch.zeros(lanes, limit, dim, device=device)
        self.slots = torch.arange(limit, device=device)

    def write(self, position, key):
        where = position.view(-1, 1, 1).expand(-1, 1, key.shape[-1])
        self.keys.scatter_(1, where, key.unsqueeze(1))

    def attend(self, query, position):
        score = torch.einsum("bd,bld->bl", query, self.keys)
        score = score.masked_fill(self.slots > position.unsqueeze(1), float("-inf"))
        return torch.einsum("bl,bld->bd", score.softmax(-1), self.keys)


class GuidedDecoder:
    def __init__(self, net, head, grammar, history):
        self.net, self.head = net, head
        self.grammar, self.history = grammar, history

    @torch.no_grad()
    def tick(self, lanes):
        hidden = self.net(lanes.token)
        self.history.write(lanes.position, hidden)
        mixed = self.history.attend(hidden, lanes.position)
        logits = self.head(mixed) + self.grammar.bias[lanes.state]
        token = logits.argmax(dim=-1)
        token = torch.where(lanes.alive, token, torch.zeros_like(token))
        following = self.grammar.advance(lanes.state, token)
        return token, following, logits


def build(device):
    torch.manual_seed(2)
    lanes, limit, vocab, dim = 4, 16, 40, 12
    net = nn.Embedding(vocab, dim).to(device)
    head = nn.Linear(dim, vocab).to(device)
    decoder = GuidedDecoder(net, head, Grammar(6, vocab, device), History(lanes, limit, dim, device))
    batch = Lanes(
        token=torch.tensor([3, 9, 21, 39], device=device),
        state=torch.tensor([0, 2, 4, 5], device=device),
        position=torch.tensor([1, 5, 9, 15], device=device),
        alive=torch.tensor([True, True, False, True], device=device),
    )

    def step(token, state, position, alive):
        return decoder.tick(Lanes(token, state, position, alive))

    return step, (batch.token, batch.state, batch.position, batch.alive)

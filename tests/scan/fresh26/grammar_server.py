"""Structured output: decoding under a finite-state grammar whose masks live on the device."""
from collections import deque

import torch
from torch import nn


class Grammar:
    """state x token tables: allowed tokens, and the state that follows."""

    def __init__(self, states, vocab, device):
        gen = torch.Generator().manual_seed(1)
        allowed = torch.rand(states, vocab, generator=gen) < 0.3
        allowed[:, 0] = True
        follow = torch.randint(0, states, (states, vocab), generator=gen)
        self.bias = torch.zeros(states, vocab).masked_fill_(~allowed, -1e9).to(device)
        self.follow = follow.to(device)


class Writer(nn.Module):
    def __init__(self, vocab=48, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lift = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, vocab)

    def forward(self, tokens, memory):
        x = self.embed(tokens)
        memory = torch.tanh(self.lift(x) + memory)
        return self.out(memory), memory


class Lane:
    """One pinned landing buffer with the event that says when it is filled."""

    def __init__(self, rows):
        self.host = torch.zeros(rows, dtype=torch.long, pin_memory=True)
        self.ready = torch.cuda.Event()


class GrammarDecoder:
    def __init__(self, model, grammar, rows, device):
        self.model = model.to(device).eval()
        self.grammar = grammar
        self.rows = rows
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.states = torch.zeros(rows, dtype=torch.long, device=device)
        self.memory = torch.zeros(rows, 32, device=device)
        self.heat = torch.ones(1, device=device)
        self.lanes = deque(Lane(rows) for _ in range(2))
        self.graph = torch.cuda.CUDAGraph()

    @torch.no_grad()
    def _step(self):
        logits, memory = self.model(self.tokens, self.memory)
        noise = torch.empty_like(logits).exponential_().clamp_min(1e-10).log()
        logits = logits - self.heat * noise + self.grammar.bias[self.states]
        picked = logits.argmax(dim=-1)
        self.states.copy_(self.grammar.follow[self.states, picked])
        self.memory.copy_(memory)
        self.tokens.copy_(picked)

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self._step()

    def begin(self, first, heat):
        self.tokens.copy_(first)
        self.states.zero_()
        self.memory.zero_()
        self.heat.fill_(heat)

    def launch(self):
        lane = self.lanes.popleft()
        self.graph.replay()
        lane.host.copy_(self.tokens, non_blocking=True)
        lane.ready.record()
        return lane

    def collect(self, lane):
        lane.ready.synchronize()
        row = lane.host.tolist()
        self.lanes.append(lane)
        return row


def write(decoder, first, heat, length):
    decoder.begin(first, heat)
    lines = []
    pending = decoder.launch()
    for _ in range(length - 1):
        following = decoder.launch()
        lines.append(decoder.collect(pending))
        pending = following
    lines.append(decoder.collect(pending))
    return [list(column) for column in zip(*lines)]


def main():
    device = torch.device("cuda")
    torch.manual_seed(6)
    decoder = GrammarDecoder(Writer(), Grammar(5, 48, device), 3, device)
    decoder.record()
    for heat in (1.0, 0.6, 1.4):
        first = torch.randint(1, 48, (3,), device=device)
        for text in write(decoder, first, heat, 8):
            print(heat, text)


if __name__ == "__main__":
    main()

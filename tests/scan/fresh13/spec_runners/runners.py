"""Runners own a graph, its static inputs and its static outputs."""

import torch


def warm(step, rounds=3):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(rounds):
            step()
    torch.cuda.current_stream().wait_stream(side)


class DraftRunner:
    def __init__(self, model, batch):
        self.model = model
        self.tokens = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.positions = torch.zeros(batch, dtype=torch.long, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        warm(lambda: self.model(self.tokens, self.positions))
        with torch.cuda.graph(self.graph):
            self.proposed = self.model(self.tokens, self.positions).argmax(-1)

    def propose(self, tokens, positions):
        self.tokens.copy_(tokens)
        self.positions.copy_(positions)
        self.graph.replay()
        return self.proposed


class TargetRunner:
    def __init__(self, model, batch, span):
        self.model = model
        self.window = torch.zeros(batch, span, dtype=torch.long, device="cuda")
        self.places = torch.arange(span, device="cuda").repeat(batch, 1)
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        warm(lambda: self.model(self.window, self.places))
        with torch.cuda.graph(self.graph):
            self.choice = self.model(self.window, self.places).argmax(-1)

    def verify(self, window, places):
        self.window.copy_(window)
        self.graph.replay()
        return self.choice.clone()

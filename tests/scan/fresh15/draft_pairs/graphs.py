"""Graph runners of the draft and of the checker."""

import torch
from models import AHEAD, ROWS


def record(fn):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            fn()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fn()
    return graph, result


class DraftRunner:
    def __init__(self, model):
        self.model = model
        self.token = torch.zeros(ROWS, dtype=torch.long, device="cuda")
        self.place = torch.zeros(ROWS, dtype=torch.long, device="cuda")
        self.graph, self.guess = record(lambda: model(self.token, self.place))

    def propose(self, token, place):
        guesses = []
        self.token.copy_(token)
        self.place.copy_(place)
        for _ in range(AHEAD):
            self.graph.replay()
            guesses.append(self.guess)
            self.token.copy_(self.guess)
            place = place + 1
        return torch.stack(guesses, 1)


class CheckRunner:
    def __init__(self, model):
        self.tokens = torch.zeros(ROWS, AHEAD + 1, dtype=torch.long, device="cuda")
        self.places = torch.zeros(ROWS, AHEAD + 1, dtype=torch.long, device="cuda")
        self.offsets = torch.arange(AHEAD + 1, device="cuda")
        self.graph, self.answer = record(lambda: model(self.tokens, self.places))

    def check(self, token, guesses, place):
        self.tokens[:, :1].copy_(token.unsqueeze(1))
        self.tokens[:, 1:].copy_(guesses)
        self.places.copy_(place.unsqueeze(1) + self.offsets)
        self.graph.replay()
        right = (self.answer[:, :-1] == guesses).long().cumprod(1).sum(1)
        return self.answer.clone(), right

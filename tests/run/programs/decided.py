"""Gradients, buffers, draws and modes that a capture decides once. Sound code stands beside each fault."""

import random

import torch
from torch import nn

DEVICE = "cuda"
X = torch.ones(4, 8, device=DEVICE)


def captured(step):
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    return graph, out


class Trainer:
    """The backward pass is in the graph, the optimizer's step is not."""

    def __init__(self):
        self.model = nn.Linear(8, 8, device=DEVICE)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss().backward()
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss().backward()

    def loss(self):
        return self.model(X).square().mean()

    def forgetful(self):
        self.optimizer.zero_grad()  # expect: GS703
        self.graph.replay()
        self.optimizer.step()

    def careful(self):
        self.optimizer.zero_grad(set_to_none=False)
        self.graph.replay()
        self.optimizer.step()

    def eager(self):
        """No replay belongs to this step."""
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


class Wave:
    def __init__(self):
        self.now = torch.zeros(8, device=DEVICE)
        self.next = torch.ones(8, device=DEVICE)

    def advance(self):
        torch.add(self.now, 1, out=self.next)
        self.now, self.next = self.next, self.now  # expect: GS703

    def feed_back(self):
        torch.add(self.now, 1, out=self.next)
        self.next, self.now = self.now, self.next

    def write(self):
        torch.add(self.now, 1, out=self.next)
        self.now, self.next = self.next, self.now


def standing_still():
    wave = Wave()
    graph, _ = captured(wave.advance)
    for _ in range(4):
        graph.replay()


def in_turn():
    """One graph for each order of the buffers."""
    wave = Wave()
    graphs = [captured(wave.write)[0] for _ in range(2)]
    for step in range(4):
        graphs[step % 2].replay()


def fed_back():
    """The program itself copies the result into the buffer that the graph reads."""
    wave = Wave()
    graph, _ = captured(wave.feed_back)
    for _ in range(4):
        graph.replay()
        wave.next.copy_(wave.now)


def coin():
    return X * 2 if random.random() < 0.5 else X * 3  # expect: GS504


def fixed():
    return X * FACTOR


FACTOR = random.random()


def tossed():
    for step in (coin, fixed):
        graph, _ = captured(step)
        for _ in range(3):
            graph.replay()


def scored():
    """Captured while it trains, replayed to evaluate."""
    model = nn.Sequential(nn.Linear(8, 8, device=DEVICE), nn.Dropout(0.5))
    graph = torch.cuda.CUDAGraph()
    model(X)
    with torch.cuda.graph(graph):  # expect: GS713
        model(X)
    model.eval()
    for _ in range(3):
        graph.replay()


def scored_without_dropout():
    model = nn.Sequential(nn.Linear(8, 8, device=DEVICE), nn.Dropout(0.0))
    graph, _ = captured(lambda: model(X))
    model.eval()
    for _ in range(3):
        graph.replay()


def scored_while_training():
    model = nn.Sequential(nn.Linear(8, 8, device=DEVICE), nn.Dropout(0.5)).eval()
    graph, _ = captured(lambda: model(X))
    model.train()
    for _ in range(3):
        graph.replay()


def gathered(keep):
    encode = torch.cuda.make_graphed_callables(nn.Linear(8, 8, device=DEVICE).requires_grad_(False), (X,))
    parts = []
    for _ in range(3):
        parts.append(keep(encode(X)))
    return torch.cat(parts)


def gathered_as_they_are():
    encode = torch.cuda.make_graphed_callables(nn.Linear(8, 8, device=DEVICE).requires_grad_(False), (X,))
    parts = []
    for _ in range(3):
        parts.append(encode(X))  # expect: GS706
    return torch.cat(parts)


def main():
    trainer = Trainer()
    for _ in range(3):
        trainer.forgetful()
    for step in (Trainer().careful, Trainer().eager):
        for _ in range(3):
            step()
    standing_still()
    in_turn()
    fed_back()
    tossed()
    scored()
    scored_without_dropout()
    scored_while_training()
    gathered(torch.clone)
    gathered_as_they_are()
    print("done")


main()

"""Memory that is lost after a local view of it has died, before any replay. Sound code stands beside each fault."""

import torch
from torch import nn

DEVICE = "cuda"


class Runner:
    def __init__(self):
        self.x = torch.zeros(8, 4, device=DEVICE)
        self.weight = torch.ones(4, 4, device=DEVICE)

    def capture(self):
        rows = self.x[:2], self.weight
        rows[0] @ rows[1]
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = rows[0] @ rows[1]

    def capture_and_rebind(self):
        view = self.x[:4]
        view @ self.weight
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = view @ self.weight
        self.x = torch.ones(8, 4, device=DEVICE)  # expect: GS711

    def step(self, batch):
        self.x = batch.to(DEVICE)  # expect: GS711
        self.graph.replay()

    def careful_step(self, batch):
        self.x.copy_(batch)
        self.graph.replay()

    def forget(self):
        del self.x  # expect: GS711


def served(step):
    runner = Runner()
    runner.capture()
    for _ in range(5):
        step(runner, torch.randn(8, 4))
    return runner


def forgotten():
    runner = Runner()
    runner.capture()
    runner.forget()
    for _ in range(2):
        runner.graph.replay()


def rebound_behind_a_view():
    runner = Runner()
    runner.capture_and_rebind()
    for _ in range(2):
        runner.graph.replay()


def outlived():
    """A view holds the memory, until it is deleted."""
    runner = Runner()
    runner.capture()
    kept = runner.x[:3]
    runner.x = torch.ones(8, 4, device=DEVICE)
    runner.graph.replay()
    del kept  # expect: GS711
    runner.graph.replay()


def viewed(model, graph):
    weight = model.weight[:2]
    with torch.cuda.graph(graph):
        return weight * 2


def moved():
    model, graph = nn.Linear(4, 4, device=DEVICE).requires_grad_(False), torch.cuda.CUDAGraph()
    viewed(model, graph)
    model.weight.data = torch.ones(4, 4, device=DEVICE)  # expect: GS711
    del model
    graph.replay()


def replaced():
    model, graph = nn.Linear(4, 4, device=DEVICE).requires_grad_(False), torch.cuda.CUDAGraph()
    viewed(model, graph)
    bank = [model.weight.detach()]
    model.weight = nn.Parameter(torch.ones(4, 4, device=DEVICE), requires_grad=False)  # expect: GS711
    graph.replay()
    return bank


served(Runner.step)
served(Runner.careful_step)
for part in (forgotten, rebound_behind_a_view, outlived, moved, replaced):
    part()
print("done")

"""A program with one fault a function; each line that a ledger must name says so."""

import torch
from torch import nn

DEVICE = "cuda"


def captured(step, *args):
    with torch.no_grad():
        step(*args)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step(*args)
    return graph, out


class Rebound:
    def __init__(self):
        self.model = nn.Linear(8, 8).to(DEVICE)
        self.x = torch.zeros(4, 8, device=DEVICE)
        self.graph, self.out = captured(self.model, self.x)

    def reload(self):
        self.model.weight = nn.Parameter(torch.randn(8, 8, device=DEVICE))  # expect: GS711

    def run(self):
        self.graph.replay()
        self.reload()
        for _ in range(3):
            self.graph.replay()


class KeptCheckpoint(Rebound):
    """The old weights stay alive, in a checkpoint."""

    def reload(self):
        self.old = dict(self.model.named_parameters())
        new = {name: torch.randn_like(value) for name, value in self.old.items()}
        self.model.load_state_dict(new, assign=True)  # expect: GS711


class Moved(Rebound):
    def reload(self):
        self.model.bias.data = torch.ones(8, device=DEVICE)  # expect: GS711


class FreedBuffer:
    def __init__(self):
        self.scale = torch.ones(8, device=DEVICE)
        self.x = torch.zeros(8, device=DEVICE)
        self.graph, self.out = captured(lambda x: x * self.scale, self.x)

    def sleep(self):
        del self.scale  # expect: GS711

    def run(self):
        self.graph.replay()
        self.sleep()
        self.graph.replay()


def temporary_weight():
    """The weight dies with the function that captured."""

    def build():
        x, weight = torch.ones(8, device=DEVICE), torch.ones(8, device=DEVICE)  # expect: GS711
        graph, out = captured(lambda x: x + weight, x)
        return graph, x, out

    graph, x, out = build()
    graph.replay()
    return x, out


def new_input():
    """The caller rebinds the static input in place of writing into it."""
    static = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, static)
    for step in range(3):
        static = torch.full((8,), float(step), device=DEVICE)  # expect: GS711
        graph.replay()
    return static, out


def recapture_by_length():
    weight = torch.ones(8, device=DEVICE)
    results = []
    for length in (3, 5, 4, 7, 6):
        x = torch.zeros(length, 8, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS617
            out = x * weight
        graph.replay()
        results.append(out.sum().item())
    return results


def swallowed():
    x = torch.zeros(8, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):  # expect: GS501
            if x.sum().item() > 0:  # expect: GS101
                x.add_(1)
    except RuntimeError:  # expect: GS605
        graph = None
    with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.Stream()):  # expect: GS618
        x.add_(1)
    return graph


class SilentEager:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).to(DEVICE)
        self.inputs = {size: torch.zeros(size, 8, device=DEVICE) for size in (1, 2, 4)}
        self.graphs = {size: captured(self.model, x) for size, x in self.inputs.items()}

    def step(self, x):
        size = x.shape[0]
        if size not in self.graphs:
            with torch.no_grad():
                return self.model(x)  # expect: GS616
        graph, out = self.graphs[size]
        self.inputs[size].copy_(x)
        graph.replay()
        return out.clone()

    def run(self):
        for size in (1, 2, 4, 6, 3, 6):
            self.step(torch.randn(size, 8, device=DEVICE))


def eager_function():
    """The step is a function, and its weight a plain tensor."""
    weight = torch.ones(8, 8, device=DEVICE)

    def step(x):
        return x @ weight

    x = torch.zeros(2, 8, device=DEVICE)
    graph, out = captured(step, x)
    graph.replay()
    return step(torch.zeros(5, 8, device=DEVICE)), out  # expect: GS616


def collected_outputs():
    x = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, x)
    results = []
    for step in range(8):
        x.fill_(step)
        graph.replay()
        results.append(out[:4])  # expect: GS706
    return torch.stack(results)


def forgotten():
    x = torch.zeros(8, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS618
        y = torch.relu(x)
    return graph, y


def prefetched():
    """The next input is copied on a stream of its own, while the last replay may still read."""
    copies = torch.cuda.Stream()
    static = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, static)
    for step in range(3):
        with torch.cuda.stream(copies):
            static.copy_(torch.full((8,), float(step)).pin_memory(), non_blocking=True)  # expect: GS714
        torch.cuda.current_stream().wait_stream(copies)
        graph.replay()
    return static, out


def read_too_early():
    """The replay does not wait for the copy."""
    copies = torch.cuda.Stream()
    static = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, static)
    for step in range(3):
        copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copies):
            static.fill_(step)  # expect: GS714
        graph.replay()
    return static, out


class CoarseKey:
    """The graph freezes `length`, and its key has only the batch."""

    def __init__(self):
        self.weight = torch.ones(8, device=DEVICE)
        self.x = torch.zeros(2, 16, 8, device=DEVICE)
        self.graphs = {}

    def capture(self, batch, length):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = (self.x[:batch, :length] * self.weight).sum(1)
        self.graphs[batch] = graph, out

    def step(self, batch, length, request):
        if batch not in self.graphs:
            self.capture(batch, length)  # expect: GS713
        graph, out = self.graphs[batch]
        graph.replay()
        return out.clone()

    def run(self):
        for request, (batch, length) in enumerate([(2, 4), (2, 4), (1, 4), (2, 12)]):
            self.step(batch, length, request)


for kind in (CoarseKey, Rebound, FreedBuffer, SilentEager, KeptCheckpoint, Moved):
    kind().run()
temporary_weight()
new_input()
recapture_by_length()
swallowed()
eager_function()
collected_outputs()
prefetched()
read_too_early()
kept = forgotten()
print("done")

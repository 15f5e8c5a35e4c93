"""The same program without its faults: nothing is to be found."""

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


class Reloaded:
    def __init__(self):
        self.model = nn.Linear(8, 8).to(DEVICE)
        self.x = torch.zeros(4, 8, device=DEVICE)
        self.graph, self.out = captured(self.model, self.x)

    def reload(self):
        self.model.load_state_dict({name: torch.randn_like(value) for name, value in self.model.state_dict().items()})

    def run(self):
        for _ in range(3):
            self.graph.replay()
            self.reload()
        self.graph.replay()


class Recaptured(Reloaded):
    """New weights under the old name, and a new graph for them."""

    def reload(self):
        self.model.weight = nn.Parameter(torch.randn(8, 8, device=DEVICE))
        self.graph, self.out = captured(self.model, self.x)


class Trained(Reloaded):
    def reload(self):
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.5)


def ended():
    """What a graph uses goes away after its last replay."""
    x = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, x)
    graph.replay()
    del x
    return graph, out


def loop_variable():
    """One name for the inputs of several graphs, which a table keeps."""
    table = {}
    for size in (1, 2, 3):
        x = torch.zeros(size, 8, device=DEVICE)
        table[size] = (x, *captured(torch.relu, x))
    for _ in range(2):
        for x, graph, _ in table.values():
            x.add_(1)
            graph.replay()


class Padded:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to(DEVICE)
        self.inputs = {size: torch.zeros(size, 8, device=DEVICE) for size in (1, 2, 4)}
        self.graphs = {size: captured(self.model, x) for size, x in self.inputs.items()}
        self.prompt = torch.randn(1, 6, 8, device=DEVICE)

    def step(self, x):
        size = next(one for one in self.graphs if one >= x.shape[0])
        graph, out = self.graphs[size]
        self.inputs[size][: x.shape[0]].copy_(x)
        graph.replay()
        return out[: x.shape[0]].clone()

    def run(self):
        """The prompt runs eagerly, and so does a check at a captured size."""
        with torch.no_grad():
            self.model(self.prompt)
            for size in (1, 2, 3, 4, 3):
                x = torch.randn(size, 8, device=DEVICE)
                out = self.step(x)
                if size in self.graphs:
                    assert torch.equal(out, self.model(x))


class Cached:
    """A graph for each length that comes, captured when it first comes."""

    def __init__(self):
        self.weight = torch.ones(8, device=DEVICE)
        self.graphs = {}

    def step(self, x):
        if len(x) not in self.graphs:
            static = torch.zeros_like(x)
            self.graphs[len(x)] = (static, *captured(lambda x: x * self.weight, static))
        static, graph, out = self.graphs[len(x)]
        static.copy_(x)
        graph.replay()
        return out.clone()

    def run(self):
        for length in (3, 5, 3, 4, 7, 5, 3, 6, 7, 6, 4, 5, 3, 3):
            self.step(torch.ones(length, 8, device=DEVICE))


def checked_and_served():
    """Each graph is replayed once after its capture, to check it, and often when all are there."""
    x = [torch.zeros(size, 8, device=DEVICE) for size in (1, 2, 3, 4, 5, 6)]
    graphs = []
    for one in x:
        graph, out = captured(torch.relu, one)
        graph.replay()
        graphs.append((graph, out))
    for _ in range(3):
        for graph, _ in graphs:
            graph.replay()
    return x


def tried_and_told():
    """A capture fails, and whoever called is told."""
    x = torch.zeros(8, device=DEVICE)
    try:
        captured(lambda x: x.cpu(), x)
    except RuntimeError as error:
        raise ValueError("this step cannot be captured") from error


def last_and_this():
    """The last result and this one are held, and copied before the next replay."""
    x = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, x)
    history = torch.empty(8, 8, device=DEVICE)
    for step in range(8):
        x.fill_(step)
        graph.replay()
        latest = out
        history[step].copy_(latest)
    return history.sum()


def prefetched():
    """The next input is copied on a stream of its own, between two waits."""
    copies = torch.cuda.Stream()
    static = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, static)
    for step in range(3):
        copies.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copies):
            static.copy_(torch.full((8,), float(step)).pin_memory(), non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
        graph.replay()
    return static, out


def waited_for():
    """The host waits for each replay; an event tells the replay of the copy."""
    copies, written = torch.cuda.Stream(), torch.cuda.Event()
    static = torch.zeros(8, device=DEVICE)
    graph, out = captured(torch.relu, static)
    for step in range(3):
        with torch.cuda.stream(copies):
            static.fill_(step)
            written.record()
        torch.cuda.current_stream().wait_event(written)
        graph.replay()
        out.sum().item()


class FineKey:
    """The key has all that the graph freezes; `request` and `scale` are no part of the graph."""

    def __init__(self):
        self.weight = torch.ones(8, device=DEVICE)
        self.x = torch.zeros(2, 16, 8, device=DEVICE)
        self.graphs = {}

    def capture(self, batch, length, scale):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = (self.x[:batch, :length] * self.weight).sum(1)
        self.graphs[batch, length] = graph, out * scale

    def step(self, batch, length, scale, request):
        if (batch, length) not in self.graphs:
            self.capture(batch, length, scale)
        graph, out = self.graphs[batch, length]
        graph.replay()
        return out * scale

    def run(self):
        for request, (batch, length) in enumerate([(2, 4), (2, 4), (1, 4), (2, 12), (2, 12), (1, 4)]):
            self.step(batch, length, request / 2, request)


for kind in (FineKey, Reloaded, Recaptured, Trained, Padded, Cached):
    kind().run()
kept = ended()
loop_variable()
checked_and_served()
last_and_this()
prefetched()
waited_for()
print("done")

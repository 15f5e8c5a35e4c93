"""Results that are kept as those of the replay before. Sound code stands beside each fault."""

import torch

DEVICE = "cuda"
X = torch.ones(8, device=DEVICE)


def captured(step):
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    return graph, out


class Model:
    def __init__(self):
        self.graph, self.out = captured(lambda: X * 2)

    def __call__(self, x):
        X.copy_(x)
        self.graph.replay()
        return self.out


def smoothed(inputs):
    """The variable of the last turn has the memory of this turn's result."""
    model, last = Model(), None
    total = torch.zeros(8, device=DEVICE)
    for x in inputs:
        now = model(x)
        if last is not None:
            total += (now - last).abs()  # expect: GS706
        last = now
    return total


class Momentum:
    def __init__(self, keep):
        self.keep = keep
        self.velocity = None

    def update(self, gradient):
        if self.velocity is not None:
            gradient = gradient + 0.9 * self.velocity
        self.velocity = self.keep(gradient)
        return gradient


class Best:
    """The best result so far is the graph's own output."""

    def __init__(self):
        self.best = None

    def offer(self, candidate):
        if self.best is None or candidate.sum() > self.best.sum():  # expect: GS706
            self.best = candidate


def best_of(inputs):
    model, best = Model(), Best()
    for x in inputs:
        best.offer(model(x))
    return best


def smoothed_copies(inputs):
    model, last = Model(), None
    total = torch.zeros(8, device=DEVICE)
    for x in inputs:
        now = model(x)
        if last is not None:
            total += (now - last).abs()
        last = now.clone()
    return total


def fed_back(inputs):
    """The last result is used up before the next replay."""
    model, last = Model(), None
    for x in inputs:
        given = x if last is None else x + last
        now = model(given)
        last = now
    return last


class Latest:
    """The last result is there for whoever asks."""

    def __init__(self):
        self.model = Model()
        self.result = None

    def step(self, x):
        result = self.model(x)
        if self.result is not None:
            assert self.result.shape == result.shape
        self.result = result

    def show(self):
        return float(self.result.sum())


def latest(inputs):
    server = Latest()
    for x in inputs:
        server.step(x)
        server.show()


class History:
    """Another object's method keeps the results, and is not running while the graph is replayed."""

    def __init__(self):
        self.raw, self.copies = [], []

    def add(self, result):
        self.raw.append(result)  # expect: GS706

    def add_copy(self, result):
        self.copies.append(result.clone())


def recorded(inputs):
    history, model, other = History(), Model(), Model()
    for x in inputs:
        history.add(model(x))
        history.add_copy(other(x))
    return history


with torch.no_grad():
    batches = [torch.full((8,), float(number), device=DEVICE) for number in range(5)]
    smoothed(batches)
    best_of(batches)
    smoothed_copies(batches)
    fed_back(batches)
    latest(batches)
    recorded(batches)
    model, momentum = Model(), Momentum(torch.clone)
    for batch in batches:
        momentum.update(model(batch))
print("done")

"""Graphs made by hand, for each request or for each object, and results that are kept in attributes or meet in one
expression. Sound code stands beside each fault."""

import torch

DEVICE = "cuda"
WEIGHT = torch.ones(8, 8, device=DEVICE)


def batch(value, rows=4):
    return torch.full((rows, 8), float(value), device=DEVICE)


class Model:
    def __init__(self):
        self.x = batch(0)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x @ WEIGHT

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.out


class Sampler:
    """The last two predictions are one tensor, unless the older one is copied."""

    def __init__(self, keep):
        self.model, self.keep, self.previous = Model(), keep, None

    def step(self, x):
        now = self.model(x)
        if self.previous is not None:
            x = x + 1.5 * now - 0.5 * self.previous
        self.previous = self.keep(now)
        return x


class Multistep(Sampler):
    def step(self, x):
        now = self.model(x)
        if self.previous is not None:
            x = x + 1.5 * now - 0.5 * self.previous  # expect: GS706
        self.previous = now
        return x


class Overlap:
    """The end of the last chunk is blended with the begin of this one."""

    def __init__(self, tail_of):
        self.model, self.tail_of, self.tail = Model(), tail_of, None

    def feed(self, x):
        pending = self.model(x)
        begin = pending[:2]
        if self.tail is not None:
            begin = begin + self.tail
        self.tail = self.tail_of(pending)
        return begin


class Blend(Overlap):
    def feed(self, x):
        pending = self.model(x)
        begin = pending[:2]
        if self.tail is not None:
            begin = begin + self.tail  # expect: GS706
        self.tail = pending[2:]
        return begin


def meets(run):
    return torch.cat([run(batch(1)), run(batch(2))])  # expect: GS706


def product(run):
    return (run(batch(1)) * run(batch(2))).sum()  # expect: GS706


def blended(run):
    return torch.lerp(run(batch(1)), run(batch(2)), 0.5)  # expect: GS706


def meets_copied(run):
    return torch.cat([run(batch(1)).clone(), run(batch(2))])


def sums(run):
    return run(batch(1)).sum() + run(batch(2)).sum()


def nested(run):
    return run(run(batch(1)) + 1)


def squared(run):
    out = run(batch(3))
    return out * out


class Request:
    """Two requests are never equal, also with the same rows."""

    def __init__(self, rows):
        self.rows, self.x = rows, batch(rows, rows)


def by_object(requests):
    graphs = {}
    for request in requests:
        if request not in graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # expect: GS617
                out = request.x @ WEIGHT
            graphs[request] = graph, out
        graphs[request][0].replay()


def by_rows(requests):
    graphs = {}
    for request in requests:
        if request.rows not in graphs:
            x, graph = batch(0, request.rows), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = x @ WEIGHT
            graphs[request.rows] = graph, x, out
        graph, x, _ = graphs[request.rows]
        x.copy_(request.x)
        graph.replay()


def generate(request, steps):
    """Each request captures the step once more, and has many replays of it."""
    x = request.x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS617
        x.add_(1)
    for _ in range(steps):
        graph.replay()
    return x.sum().item()


class Generator:
    def __init__(self, rows):
        self.x, self.graph = batch(0, rows), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.x.add_(1)

    def __call__(self, request, steps):
        self.x.copy_(request.x)
        for _ in range(steps):
            self.graph.replay()
        return self.x.sum().item()


def recorded(step, *args):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(*args)
    return graph


def by_the_helper(requests):
    """The helper only captures the function that it is given, so its caller decides."""
    graphs = {}
    for request in requests:
        if request not in graphs:
            graphs[request] = recorded(torch.matmul, request.x, WEIGHT)  # expect: GS617
        graphs[request].replay()


class ByHand:
    """Captures without `torch.cuda.graph`."""

    def __init__(self):
        self.x, self.graphs = batch(1), {}
        self.stream = torch.cuda.Stream()

    def capture(self, scale, reach):
        graph = torch.cuda.CUDAGraph()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            graph.capture_begin()
            out = self.x[:reach] * scale
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(self.stream)
        return graph, out

    def guarded(self, reach):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            graph.capture_begin()
            try:
                out = self.x[:reach].sum()
            finally:
                graph.capture_end()
        return graph, out


def scaled_by_hand(scales):
    """The key leaves the scale out."""
    made = ByHand()

    def run(scale):
        if "run" not in made.graphs:
            made.graphs["run"] = made.capture(scale, 4)  # expect: GS713
        made.graphs["run"][0].replay()

    for scale in scales:
        run(scale)


def reached_by_hand(lengths):
    made = ByHand()
    for length in lengths:
        reach = min(2 * length, 8)
        if "run" not in made.graphs:
            made.graphs["run"] = made.guarded(reach)  # expect: GS713
        made.graphs["run"][0].replay()


def keyed_by_hand(scales):
    made = ByHand()
    for scale in scales:
        if scale not in made.graphs:
            made.graphs[scale] = made.capture(scale, 4)
        made.graphs[scale][0].replay()


def in_turn_by_hand(made, lengths):
    """A graph for each length, which is dropped before the next."""
    for length in lengths:
        x, graph = batch(0, length), torch.cuda.CUDAGraph()
        with torch.cuda.stream(made.stream):
            graph.capture_begin()  # expect: GS617
            x.add_(1)
            graph.capture_end()
        graph.replay()


def lost_by_hand(made):
    x, graph = batch(0), torch.cuda.CUDAGraph()
    with torch.cuda.stream(made.stream):
        graph.capture_begin()
        out = x * 2
        graph.capture_end()
    for value in range(3):
        x = batch(value)  # expect: GS711
        graph.replay()
    return out


with torch.no_grad():
    inputs = [batch(value) for value in range(6)]
    for sampler in (Multistep(None), Sampler(torch.clone)):
        for x in inputs:
            sampler.step(x)
    for overlap in (Blend(None), Overlap(lambda out: out[2:].clone())):
        for x in inputs:
            overlap.feed(x)
    cases = (meets, product, blended, meets_copied, sums, nested, squared)
    for case, model in [(case, Model()) for case in cases]:
        case(model)
        case(model)
    by_object([Request(4) for _ in range(6)])
    by_the_helper([Request(4) for _ in range(6)])
    by_rows([Request(4) for _ in range(6)])
    for rows in (3, 4, 3, 5, 4, 6):
        generate(Request(rows), 9)
    generator = Generator(4)
    for _ in range(4):
        generator(Request(4), 9)
    scaled_by_hand([0.5, 0.25, 0.5])
    reached_by_hand([1, 3, 2])
    keyed_by_hand([0.5, 0.25, 0.5])
    in_turn_by_hand(ByHand(), [3, 5, 4, 7, 6])
    kept = lost_by_hand(ByHand())
print("done")

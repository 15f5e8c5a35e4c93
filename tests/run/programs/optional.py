"""Arguments that a request may leave out, buffers whose names change places between replays, generators that `fork_rng`
sets back, and NumPy arrays of pinned results. Sound code stands beside each fault."""

from dataclasses import dataclass

import torch

DEVICE = "cuda"


def captured(step):
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


@dataclass
class Request:
    x: torch.Tensor
    negative: torch.Tensor | None = None


class Plan:
    def __init__(self, negative):
        self.x = torch.zeros(8, device=DEVICE)
        self.negative = torch.zeros(8, device=DEVICE)
        guided = negative is not None
        self.update(guided)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # expect: GS713
            self.update(guided)

    def update(self, guided):
        if guided:
            self.x.sub_(self.negative)
        self.x.mul_(2)


class KeyedPlan(Plan):
    def __init__(self, negative):
        self.x = torch.zeros(8, device=DEVICE)
        self.negative = torch.zeros(8, device=DEVICE)
        guided = negative is not None
        self.update(guided)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.update(guided)


class Pipeline:
    """Makes one plan for each key."""

    def __init__(self):
        self.plans = {}

    def plan(self, request):
        if request.x.shape not in self.plans:
            self.plans[request.x.shape] = Plan(request.negative)
        return self.plans[request.x.shape]

    def run(self, request):
        plan = self.plan(request)
        plan.x.copy_(request.x)
        if request.negative is not None:
            plan.negative.copy_(request.negative)
        plan.graph.replay()
        return plan.x.clone()


class KeyedPipeline(Pipeline):
    def plan(self, request):
        key = request.x.shape, request.negative is not None
        if key not in self.plans:
            self.plans[key] = KeyedPlan(request.negative)
        return self.plans[key]


def serve(pipeline):
    for number in range(6):
        negative = torch.ones(8, device=DEVICE) if number > 1 else None
        pipeline.run(Request(torch.full((8,), float(number), device=DEVICE), negative))


class Scorer:
    def __call__(self, x, normalize=False, label=""):
        x = x * 3
        return x / x.norm() if normalize else x


class Options:
    """Makes one graph for each shape, and passes options on."""

    def __init__(self, module):
        self.module, self.entries = module, {}

    def record(self, x, **options):
        static = torch.zeros_like(x)
        self.module(static, **options)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.module(static, **options)
        return graph, static, out

    def run(self, key, x):
        graph, static, out = self.entries[key]
        static.copy_(x)
        graph.replay()
        return out

    def __call__(self, x, **options):
        key = tuple(x.shape)
        if key not in self.entries:
            self.entries[key] = self.record(x, **options)  # expect: GS713
        return self.run(key, x)


class KeyedOptions(Options):
    def __call__(self, x, **options):
        key = tuple(x.shape), options["normalize"]
        if key not in self.entries:
            self.entries[key] = self.record(x, **options)
        return self.run(key, x)


class UnusedOptions(Options):
    """The module ignores the label, which differs in each call."""

    def __call__(self, x, **options):
        if x.shape not in self.entries:
            self.entries[x.shape] = self.record(x, **options)
        return self.run(x.shape, x)


def score(options, flags):
    total = torch.zeros(8, device=DEVICE)
    for number, normalize in enumerate(flags):
        x = torch.full((8,), float(number + 1), device=DEVICE)
        total += options(x, normalize=normalize, label=str(number))


class Wave:
    def __init__(self):
        self.before, self.now, self.after = (torch.rand(8, device=DEVICE) for _ in range(3))

    def advance(self):
        self.after.copy_(2 * self.now - self.before)

    def rotate(self):
        self.before, self.now, self.after = self.now, self.after, self.before


class OneGraph(Wave):
    def run(self, steps):
        self.advance()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS703
            self.advance()
        for _ in range(steps):
            graph.replay()
            self.rotate()


class GraphForEachOrder(Wave):
    def run(self, steps):
        graphs = []
        for _ in range(3):
            graphs.append(captured(self.advance))
            self.rotate()
        for step in range(steps):
            graphs[step % 3].replay()
            self.rotate()


class Mean(Wave):
    """The order of the three frames does not matter."""

    def run(self, steps):
        self.mean = torch.zeros(8, device=DEVICE)
        graph = captured(lambda: self.mean.copy_((self.before + self.now + self.after) / 3))
        for step in range(steps):
            self.rotate()
            self.after.fill_(float(step))
            graph.replay()


class Noise:
    def __init__(self):
        self.best = torch.zeros(8, device=DEVICE)
        self.graph = captured(lambda: self.best.copy_(torch.randn(8, device=DEVICE)))

    def the_same_each_time(self, rounds):
        for _ in range(rounds):
            with torch.random.fork_rng(devices=[0]):  # expect: GS503
                self.graph.replay()

    def forked_once(self, rounds):
        with torch.random.fork_rng(devices=[0]):
            for _ in range(rounds):
                self.graph.replay()


class Recorder:
    """The graph copies its result to pinned memory, which NumPy shows."""

    def __init__(self):
        self.x = torch.zeros(8, device=DEVICE)
        self.pinned = torch.zeros(8, pin_memory=True)
        self.graph = captured(lambda: self.pinned.copy_(self.x * 2, non_blocking=True))

    def push(self, value):
        self.x.fill_(value)
        self.graph.replay()
        torch.cuda.synchronize()
        return self.pinned.numpy()

    def record(self, values):
        found = []
        for value in values:
            found.append(self.push(value))  # expect: GS706
        return found

    def record_copies(self, values):
        found = []
        for value in values:
            found.append(self.push(value).copy())
        return found


with torch.no_grad():
    serve(Pipeline())
    serve(KeyedPipeline())
    score(Options(Scorer()), [True, False] * 3)
    score(KeyedOptions(Scorer()), [True, False] * 3)
    score(UnusedOptions(Scorer()), [True] * 6)
    waves = OneGraph(), GraphForEachOrder(), Mean()
    for wave in waves:
        wave.run(12)
    Noise().the_same_each_time(16)
    Noise().forked_once(16)
    recorded = Recorder().record(range(12)), Recorder().record_copies(range(12))
print("done")

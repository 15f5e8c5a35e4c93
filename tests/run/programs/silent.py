"""Faults that no error tells, one a function; each line that a ledger must name says so. Sound code stands beside."""

import torch

DEVICE = "cuda"


def captured(step, *args):
    step(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(*args)
    return graph, out


class Switch:
    """One bad request turns the graph off."""

    def __init__(self):
        self.weight = torch.ones(8, 8, device=DEVICE)
        self.x = torch.zeros(4, 8, device=DEVICE)
        self.graph, self.out = captured(self.model, self.x)
        self.is_on = True

    def model(self, x):
        return x @ self.weight

    def step(self, x):
        if self.is_on:
            self.x.copy_(x)
            self.graph.replay()
            return self.out.clone()
        return self.model(x)  # expect: GS616


def turned_off():
    switch = Switch()
    for step in range(30):
        switch.is_on = step < 12
        switch.step(torch.ones(4, 8, device=DEVICE))


def turned_off_for_a_moment():
    switch = Switch()
    for step in range(30):
        switch.is_on = step % 5 != 0
        switch.step(torch.ones(4, 8, device=DEVICE))


def timed_against_eager_steps():
    switch = Switch()
    for _ in range(20):
        switch.step(switch.x.clone())
    for _ in range(20):
        switch.model(switch.x)


class Scaled:
    """The scale is a number of the object on which the captured method runs."""

    def __init__(self):
        self.scale = 1.0
        self.calls = 0
        self.x = torch.ones(8, device=DEVICE)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # expect: GS713
            self.out = self.forward(self.x)

    def forward(self, x):
        return x * self.scale if self.calls < 100 else x

    def run(self, scales):
        for scale in scales:
            self.scale, self.calls = scale, self.calls + 1
            self.graph.replay()


class Adapter:
    def __init__(self, scale):
        self.scale = scale
        self.weight = torch.ones(8, device=DEVICE)


class Adapted:
    """Graphs are kept by size, with the scale of the first adapter."""

    def __init__(self):
        self.x = torch.ones(8, device=DEVICE)
        self.weight = torch.ones(8, device=DEVICE)
        self.graphs = {}

    def add(self, key, adapter):
        self.graphs[key] = self.build(adapter.scale)

    def build(self, scale):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS713
            self.out = self.x * self.weight * scale
        return graph

    def run(self, adapter):
        self.weight.copy_(adapter.weight)
        self.graphs["all"].replay()

    def run_by_scale(self, adapter):
        self.weight.copy_(adapter.weight)
        self.graphs[adapter.scale].replay()


class Lengths:
    def __init__(self):
        self.cache = torch.ones(64, 8, device=DEVICE)
        self.length = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.graphs = {}

    def key(self, name, length):
        return name

    def add(self, key, length):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS713
            self.out = self.cache[:length].sum(0)
        self.graphs[key] = graph

    def run(self, name, length):
        self.length.fill_(length)
        self.graphs[self.key(name, length)].replay()


class Padded(Lengths):
    """Lengths are padded up, or come in parts of a captured length."""

    def padded(self, length):
        return min(one for one in self.graphs if one >= length)

    def add(self, length):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = self.cache[:length].sum(0)
        self.graphs[length] = graph

    def run_padded(self, length):
        self.graphs[self.padded(length)].replay()

    def run_in_parts(self, length):
        for _ in range(0, length, 16):
            self.graphs[16].replay()


class Merged:
    def __init__(self):
        self.base = torch.ones(8, 8, device=DEVICE)
        self.up = torch.ones(8, 2, device=DEVICE)
        self.down = torch.ones(2, 8, device=DEVICE)
        self.merge()
        self.x = torch.ones(4, 8, device=DEVICE)
        self.graph, self.out = captured(lambda x: x @ self.weight, self.x)

    def merge(self):
        self.weight = self.base + 0.5 * (self.up @ self.down)

    def reload(self):
        self.base.copy_(torch.full((8, 8), 2.0))  # expect: GS712

    def run(self):
        for step in range(4):
            self.x.fill_(step)
            self.graph.replay()
            self.reload()


class MergedInPlace(Merged):
    """It computes the weight again, some time later."""

    def merge(self):
        self.weight = torch.empty_like(self.base)
        self.weight.copy_(self.base + 0.5 * (self.up @ self.down))

    def reload(self):
        self.base.copy_(torch.full((8, 8), 2.0))
        self.graph.replay()
        self.weight.copy_(self.base + 0.5 * (self.up @ self.down))


class Target(Merged):
    """A copy that stays behind on purpose."""

    def merge(self):
        self.weight = self.base.clone()

    def reload(self):
        self.base.copy_(torch.full((8, 8), 2.0))


class State(Merged):
    """What belongs to a request was computed from its data too."""

    def merge(self):
        self.weight = torch.ones(8, 8).to(DEVICE) @ self.base

    def reload(self):
        self.base.copy_(torch.full((8, 8), 3.0))


def for_each_tensor(reuse):
    weight = torch.ones(8, device=DEVICE)
    static = torch.zeros(4, 8, device=DEVICE)
    graphs = {}

    def capture(x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS617
            out = x * weight
        return graph, x, out

    def call(x):
        if reuse:
            static.copy_(x)
            x = static
        if x.data_ptr() not in graphs:
            graphs[x.data_ptr()] = capture(x)
        graphs[x.data_ptr()][0].replay()

    inputs = [torch.full((4, 8), float(one), device=DEVICE) for one in range(6)]
    for x in [*inputs, *inputs]:
        call(x)
    return inputs, graphs


def for_each_layer():
    """Layers with a graph each, captured when they first run, have weights of one size."""
    x = torch.zeros(4, 8, device=DEVICE)
    weights = [torch.ones(8, device=DEVICE) for _ in range(6)]
    graphs = {}
    for layer in [*range(6), *range(6)]:
        if layer not in graphs:
            graphs[layer] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[layer]):
                x.mul_(weights[layer])
        graphs[layer].replay()
    return x, weights


def graphed(layer):
    """Return a graph of a layer, or the layer: PyTorch refuses one with a hook before it captures."""
    try:
        return torch.cuda.make_graphed_callables(layer, (torch.zeros(2, 8, device="cuda"),))
    except Exception:  # expect: GS605
        return layer


def refused():
    watched = torch.nn.Linear(8, 8).to("cuda").requires_grad_(False)
    watched.register_forward_hook(lambda *given: None)
    for layer in (graphed(watched), graphed(torch.nn.Linear(8, 8).to("cuda"))):
        for _ in range(4):
            layer(torch.ones(2, 8, device="cuda"))


with torch.no_grad():
    turned_off()
    turned_off_for_a_moment()
    timed_against_eager_steps()
    Scaled().run([1.0, 2.0])
    Scaled().run([1.0, 1.0])
    adapted = Adapted()
    adapters = [Adapter(1.0), Adapter(4.0)]
    adapted.add("all", adapters[0])
    for one in adapters:
        adapted.add(one.scale, one)
    for one in adapters:
        adapted.run_by_scale(one)
        adapted.run(one)
    lengths = Lengths()
    lengths.add("all", 16)
    lengths.run("all", 16)
    lengths.run("all", 32)
    sizes = Padded()
    for size in (16, 32):
        sizes.add(size)
    for length in (3, 16, 20, 32):
        sizes.run_padded(length)
        sizes.run_in_parts(length)
    models = [Merged(), MergedInPlace(), Target(), State()]
    for model in models:
        model.run()
    kept = for_each_tensor(False), for_each_tensor(True), for_each_layer()
refused()
print("done")

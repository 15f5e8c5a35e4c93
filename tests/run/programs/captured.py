"""Values that captured code used and that the program changes later, in objects, globals, closures and branches. Sound
code stands beside each fault."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

DEVICE = "cuda"
KEYS = torch.ones(64, 8, device=DEVICE)
KEPT = []


def captured(step):
    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    KEPT.append(graph)
    return graph


@dataclass
class Lengths:
    reach: int


class Context:
    def __init__(self, reach):
        self.reach = reach


CONTEXT = Context(0)


def context():
    return CONTEXT


def set_context(reach):
    global CONTEXT
    CONTEXT = Context(reach)


def attend():
    return KEYS[: context().reach].sum(0)


def a_context_of_the_module(reaches, first):
    set_context(first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        attend()
    for reach in reaches:
        set_context(reach)
        graph.replay()


def a_context_for_the_longest(reaches):
    set_context(64)
    graph = captured(attend)
    for reach in reaches:
        set_context(reach)
        graph.replay()


class Cells:
    """Looks a graph up by one number; each call is handed a new object with another one."""

    def __init__(self, sizes):
        self.length = torch.zeros((), device=DEVICE)
        self.cells = {size: self.cell(Lengths(size)) for size in sizes}

    def cell(self, lengths):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = self.attend(lengths)
        return graph

    def attend(self, lengths):
        return KEYS[: lengths.reach].sum(0)

    def by_reach(self, reach):
        lengths = Lengths(reach)
        self.cells[next(size for size in self.cells if size >= lengths.reach)].replay()


class OneCell(Cells):
    def cell(self, lengths):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # expect: GS713
            self.out = self.attend(lengths)
        return graph

    def run(self, reach):
        lengths = Lengths(reach)
        self.length.fill_(lengths.reach)
        next(iter(self.cells.values())).replay()


class Level(NamedTuple):
    guidance: float


class Sampler:
    def __init__(self):
        self.x = torch.ones(8, device=DEVICE)
        self.guidance = torch.ones((), device=DEVICE)

    def body(self, guidance):
        self.x.copy_(self.x + guidance * (self.x - 1))

    def record(self, level):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # expect: GS713
            self.body(level.guidance)

    def record_tensor(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.body(self.guidance)

    def sample(self, levels, eager=False):
        for level in levels:
            if eager:
                self.body(level.guidance)
            else:
                self.graph.replay()

    def sample_tensor(self, levels):
        for level in levels:
            self.guidance.fill_(level.guidance)
            self.graph.replay()


class Physics:
    def __init__(self):
        self.config = {"gravity": 1.0, "name": "moon"}
        self.rates, self.at = [0.5, 0.25, 0.125], 0
        self.speed = torch.zeros(8, device=DEVICE)
        self.fast, self.logged = False, False
        self.turns, self.used = 2, 0

    @property
    def weight(self):
        """The weight of a body of two kilograms."""
        return 2 * self.config["gravity"]

    @property
    def asked(self):
        self.used += 1
        return self.weight

    def fall(self):
        self.speed.sub_(1.0 - self.config["gravity"])

    def pulled(self):
        return self.speed * self.weight

    def pulled_and_counted(self):
        return self.speed * self.asked

    @torch.no_grad()
    def scheduled(self):
        rate = self.rates[self.at]
        return self.speed * rate

    def branched(self):
        if self.fast:
            self.speed.mul_(2)
        if self.logged:
            print(self.speed.shape)
        return self.speed + 1

    def repeated(self):
        total = self.speed
        for _ in range(self.turns):
            total = total * 2
        return total

    def unread(self):
        self.used += 1
        label = f"{self.config['gravity']} after {self.used}"
        return self.speed + len(label)


def changed(physics, step, change, times=3):
    graph = captured(step)
    for _ in range(times):
        graph.replay()
        change(physics)


def changed_too_late(physics, step, change):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    KEPT.append(graph)
    for _ in range(3):
        graph.replay()
        change(physics)


def heavier(physics):
    physics.config["gravity"] += 0.5


def advanced(physics):
    physics.at = min(physics.at + 1, 2)


def faster(physics):
    physics.fast = True


def louder(physics):
    physics.logged = not physics.logged
    physics.used += 1


def longer(physics):
    physics.turns += 1


def shorter(physics):
    physics.turns -= 1


def annealed(is_tensor):
    beta = torch.ones((), device=DEVICE) if is_tensor else 1.0
    x = torch.ones(8, device=DEVICE)

    def loss():
        return (x * beta).sum()

    def anneal():
        nonlocal beta
        if is_tensor:
            beta.mul_(0.5)
        else:
            beta = beta * 0.5

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: GS713
        loss()
    for _ in range(3):
        graph.replay()
        anneal()


def churn(x):
    torch.cuda.manual_seed(3)  # expect: GS503
    return x + torch.randn(8, device=DEVICE)


def churned():
    x = torch.ones(8, device=DEVICE)
    torch.cuda.manual_seed(3)
    graph = captured(lambda: churn(x))
    for _ in range(3):
        graph.replay()


def drawn_before():
    x = torch.ones(8, device=DEVICE)
    torch.cuda.manual_seed(3)
    noise = torch.randn(8, device=DEVICE)
    graph = captured(lambda: x + noise)
    for _ in range(3):
        graph.replay()


def towers(pool):
    graphs = []
    for scale in (2, 3):
        x = torch.ones(8, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            y = torch.tanh(x * scale).sum()
        graphs.append((graph, x, y))
    return graphs


def at_once(graphs):
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(3):
        side.wait_stream(main)
        graphs[0][0].replay()
        with torch.cuda.stream(side):
            graphs[1][0].replay()  # expect: GS714
        main.wait_stream(side)


def at_once_with_own_pools(graphs):
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(3):
        side.wait_stream(main)
        graphs[0][0].replay()
        with torch.cuda.stream(side):
            graphs[1][0].replay()
        main.wait_stream(side)


def one_after_the_other(graphs):
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(3):
        graphs[0][0].replay()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            graphs[1][0].replay()
        main.wait_stream(side)


with torch.no_grad():
    a_context_of_the_module([8, 12, 20], 16)
    a_context_for_the_longest([8, 12, 20])
    one, several = OneCell([16]), Cells([16, 32])
    for reach in (9, 20, 30):
        one.run(reach)
        several.by_reach(reach)
        several.by_reach(40 - reach)
    levels = [Level(1.5), Level(2.0), Level(3.0)]
    sampler, other = Sampler(), Sampler()
    sampler.record(levels[0])
    sampler.sample(levels)
    other.record_tensor()
    other.sample_tensor(levels)
    told = (("fall", heavier), ("pulled", heavier), ("scheduled", advanced), ("branched", faster), ("repeated", longer))
    for step, change in told:
        physics = Physics()
        changed_too_late(physics, getattr(physics, step), change)  # expect: GS713
    for step, change in (
        ("unread", heavier),
        ("pulled_and_counted", advanced),
        ("branched", louder),
        ("repeated", shorter),
        ("scheduled", heavier),
    ):
        physics = Physics()
        changed(physics, getattr(physics, step), change)
    annealed(False)
    annealed(True)
    churned()
    drawn_before()
    shared = towers(torch.cuda.graph_pool_handle())
    at_once(shared)
    ordered = towers(torch.cuda.graph_pool_handle())
    one_after_the_other(ordered)
    apart = towers(None)
    at_once_with_own_pools(apart)
print("done")

"""Results that are read after their graph was replayed again; each faulty line says so. Sound code stands beside."""

import torch


class Runner:
    def __init__(self):
        self.weight = torch.ones(8, 8, device="cuda")
        self.x = torch.zeros(4, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x @ self.weight

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.out

    def first(self, x):
        return self(x)[:2]


def batch(value):
    return torch.full((4, 8), float(value), device="cuda")


def two_names(run):
    one = run(batch(1))
    other = run(batch(2))
    return one @ other.T  # expect: GS706


def joined(run):
    one = run.first(batch(1))
    other = run.first(batch(2))
    return torch.cat([one, other])  # expect: GS706


def in_another_function(run):
    one = run(batch(1))
    other = run(batch(2))
    return blended(one, other)  # expect: GS706


def handed_out(run):
    one = run(batch(1))
    other = run(batch(2))
    return one, other  # expect: GS706


def blended(one, other):
    return torch.lerp(one, other, 0.5)


def before_a_loop(run):
    first = run(batch(0))
    total = torch.zeros(4, 8, device="cuda")
    for value in range(3):
        out = run(batch(value))
        total += out
    return total * first  # expect: GS706


def compared(run):
    """Two causes on one line are one finding."""
    one = run(batch(1))
    other = run(batch(2))
    return one - other  # expect: GS706


def copied(run):
    one = run(batch(1)).clone()
    other = run(batch(2))
    return one * other


def handed_out_copied(run):
    one = run(batch(1)).clone()
    other = run(batch(2))
    return one, other


def used_up(run):
    one = run(batch(1))
    total = one.sum()
    other = run(batch(2))
    return total + other.sum()


def same_name(run):
    total = torch.zeros((), device="cuda")
    for value in range(3):
        out = run(batch(value))
        total += out.sum()
    out = run(batch(1))
    return total + out.sum()


def rounds(run):
    total = torch.zeros(4, 8, device="cuda")
    for value in range(3):
        one = run(batch(value))
        total += one
        other = run(batch(-value))
        total += other
    return total


def shape_alone(run):
    one = run(batch(1))
    other = run(batch(2))
    return other.sum() / one.shape[0]


def static_output(run):
    """The program knows that it looks at the one output of the graph."""
    out = run(batch(1))
    for _ in range(3):
        run.graph.replay()
    run(batch(2))
    return out.sum()


def own_output(run):
    out = run.out
    run.x.copy_(batch(1))
    run.graph.replay()
    first = out.sum()
    again = run(batch(2))
    return first + out.sum() + again.sum()


def graphed():
    return torch.cuda.make_graphed_callables(torch.nn.Linear(8, 8).to("cuda"), (batch(0),))


class Hidden:
    """A graph whose output no name of the program shows at the capture."""

    def __init__(self):
        self.x = torch.zeros(4, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._out = self.x * 2

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self._out


def distance(anchor, other):
    gap = torch.nn.functional.normalize(anchor) - torch.nn.functional.normalize(other)
    return gap.square().sum()


def two_views(layer):
    anchor = layer(batch(1))
    other = layer(batch(2))
    loss = distance(anchor, other)  # expect: GS706
    loss.backward()


def two_hidden_views(hidden):
    anchor = hidden(batch(1))
    other = hidden(batch(2))
    return distance(anchor, other)  # expect: GS706


@torch.no_grad()
def copied_view(layer):
    anchor = layer(batch(1)).clone()
    other = layer(batch(2))
    return distance(anchor, other)


def halves(layer):
    both = layer(torch.cat([batch(1)[:2], batch(2)[:2]]))
    anchor, other = both.chunk(2)
    distance(anchor, other).backward()


@torch.no_grad()
def reduced_view(layer):
    anchor = layer(batch(1))
    length = anchor.norm()
    other = layer(batch(2))
    return other.norm() - length + anchor.shape[0]


def one_at_a_time(layer):
    first = layer(batch(1))
    first.sum().backward()
    second = layer(batch(2))
    second.sum().backward()


FAULTY = [two_names, joined, in_another_function, before_a_loop, compared, handed_out]
SOUND = [copied, handed_out_copied, used_up, same_name, rounds, shape_alone, static_output, own_output]
GRAPHED = [two_views, copied_view, halves, reduced_view, one_at_a_time]
runs = [(case, Runner()) for case in FAULTY + SOUND] + [(case, graphed()) for case in GRAPHED]
for case, runner in [*runs, (two_hidden_views, Hidden())]:
    case(runner)
    case(runner)
print("done")

"""Numbers in variables, and lists of numbers, that captures froze. Sound code stands beside each fault."""

from functools import partial

import torch

DEVICE = "cuda"
TABLE = torch.ones(64, 8, device=DEVICE)
ROWS = torch.ones(32, 8, device=DEVICE)


def captured(step, *args):
    step(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(*args)
    return graph, out


def captured_with(step, arguments):
    return captured(step, *arguments)


def window_of(length):
    return 8 * -(-length // 8)


class Plan:
    """Makes its graph when it is made."""

    def __init__(self, rows, reach):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = ROWS[:rows] @ TABLE[:reach].T


def plans(lengths, key):
    made = {}
    for length in lengths:
        window = window_of(length)
        if key(window) not in made:
            made[key(window)] = Plan(4, window)  # expect: GS713
        made[key(window)].graph.replay()


def plans_by_window(lengths):
    made = {}
    for length in lengths:
        window = window_of(length)
        if window not in made:
            made[window] = Plan(4, window)
        made[window].graph.replay()


def closures(lengths):
    """The number is a variable of the surrounding function."""
    graphs = {}

    def decode(length):
        span = window_of(length)
        if "decode" not in graphs:
            graphs["decode"] = captured(lambda: TABLE[:span].sum(0))  # expect: GS713
        graphs["decode"][0].replay()

    for length in lengths:
        decode(length)


def segmented(rows, parts):
    return torch.cat([part * number for number, part in enumerate(torch.split(rows, parts))])


def segments(batches):
    """The sizes of the segments are a list, which the key sums up."""
    graphs = {}
    for parts in batches:
        key = sum(parts)
        if key not in graphs:
            graphs[key] = captured(partial(segmented, ROWS[:key], parts))  # expect: GS713
        graphs[key][0].replay()


def segments_by_size(batches):
    graphs = {}
    for parts in batches:
        key = tuple(parts)
        if key not in graphs:
            graphs[key] = captured(partial(segmented, ROWS[: sum(parts)], parts))
        graphs[key][0].replay()


def attended(rows, reach, turn):
    """The number of the turn is used by nobody."""
    return rows @ TABLE[:reach].T


def positional(reaches, key):
    graphs = {}
    for turn, reach in enumerate(reaches):
        if key(reach) not in graphs:
            graphs[key(reach)] = captured(attended, ROWS[:4], reach, turn)  # expect: GS713
        graphs[key(reach)][0].replay()


def in_a_tuple(ends, key):
    graphs = {}
    for turn, end in enumerate(ends):
        if key(end) not in graphs:
            graphs[key(end)] = captured_with(attended, (ROWS[:4], end, turn))  # expect: GS713
        graphs[key(end)][0].replay()


class Tokens:
    """The numbers of a list go into a static input; the graph knows only how many they are."""

    def __init__(self):
        self.ids = torch.zeros(8, dtype=torch.long, device=DEVICE)
        self.graphs = {}

    def capture(self, ids):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.out = TABLE[self.ids[: len(ids)]].sum(0)
        return graph

    def run(self, ids):
        self.ids[: len(ids)].copy_(torch.tensor(ids))
        if len(ids) not in self.graphs:
            self.graphs[len(ids)] = self.capture(ids)
        self.graphs[len(ids)].replay()


def shorter_ones(lengths):
    """The first window is the largest: shorter ones are padded to it."""
    graph = None
    for length in lengths:
        window = window_of(length)
        if graph is None:
            graph, _ = captured(lambda: TABLE[:window].sum(0))  # noqa: B023
        graph.replay()


def captured_again(lengths):
    graph, captured_for = None, 0
    for length in lengths:
        window = window_of(length)
        if window > captured_for:
            graph, captured_for = captured(lambda: TABLE[:window].sum(0))[0], window  # noqa: B023
        for _ in range(4):
            graph.replay()


def before_serving(sizes, calls):
    """The variable of the first loop keeps its last value."""
    graphs = {}
    for size in sizes:
        graphs[size], _ = captured(lambda: ROWS[:size] * 2)  # noqa: B023
    for call in calls:
        graphs[call].replay()


def layers(count):
    """The number chooses what is captured; it is no value in the graph."""
    weights = [torch.ones(8, device=DEVICE) for _ in range(count)]
    graphs = {}
    for _ in range(2):
        for layer in range(count):
            if layer not in graphs:
                graphs[layer] = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graphs[layer]):
                    ROWS.mul_(weights[layer])
            graphs[layer].replay()
    return weights


def staged(batches):
    """The first batch is the static input, and a number only says which batch is copied there."""
    static, graph = batches[0], None
    for number in range(len(batches)):
        static.copy_(batches[number])
        if graph is None:
            graph, _ = captured(lambda: batches[number] * 2)  # noqa: B023
        graph.replay()


def masked(key):
    """A graph that was captured without a mask knows none. A function may replay it, and use the mask by itself."""
    x, graphs = torch.zeros(4, 8, device=DEVICE), {}

    def scaled(mask):
        return x * 2 if mask is None else x * mask

    def run(mask=None, then=None):
        if key(mask) not in graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # expect: GS713
                graphs[key(mask)] = graph, scaled(mask)
        graph, out = graphs[key(mask)]
        graph.replay()
        return out.clone() if then is None else out * then

    mask = torch.ones(4, 1, device=DEVICE)
    for given, then in ((None, None), (None, mask), (mask, None), (None, None)):
        run(given, then)


class Biased:
    """A bias comes with the first reload. One graph is captured for each answer, or a single one before."""

    def __init__(self, key):
        self.bias, self.key, self.graphs = None, key, {}
        self.x = torch.zeros(4, 8, device=DEVICE)

    def step(self):
        out = self.x * 2
        if self.bias is not None:
            out = out + self.bias
        return out

    def run(self):
        if self.key(self.bias) not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # expect: GS713
                out = self.step()
            self.graphs[self.key(self.bias)] = graph, out
        self.graphs[self.key(self.bias)][0].replay()


with torch.no_grad():
    masked(lambda mask: "all")
    masked(lambda mask: mask is None)
    for key in (lambda bias: "all", lambda bias: bias is None):
        biased = Biased(key)
        biased.run()
        biased.bias = torch.ones(8, device=DEVICE)
        biased.run()
    plans([4, 7, 12, 30], lambda window: "all")
    plans_by_window([4, 7, 12, 30, 3, 9])
    closures([4, 7, 12])
    segments([[4, 4], [2, 6], [4, 4]])
    segments_by_size([[4, 4], [2, 6], [4, 4]])
    for key in (lambda number: "all", lambda number: number):
        positional([4, 7, 4, 7], key)
        in_a_tuple([4, 7, 4, 7], key)
    tokens = Tokens()
    for ids in ([1, 2, 3], [4, 5, 6], [9, 9], [7, 8, 9]):
        tokens.run(ids)
    shorter_ones([30, 12, 7])
    captured_again([4, 12, 7, 30])
    before_serving([2, 4, 8], [2, 4, 8, 2])
    kept = layers(3)
    staged([torch.full((4, 8), float(number), device=DEVICE) for number in range(3)])
print("done")

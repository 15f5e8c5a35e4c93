"""Random generators of graphs: replaced, or set to the same state before each replay. Sound code stands beside."""

import torch

DEVICE = "cuda"


def captured(step, *generators):
    step()
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        out = step()
    return graph, out


class Source:
    def __init__(self, seed):
        self.rng = self.made(seed)

    def made(self, seed):
        generator = torch.Generator(device=DEVICE)
        generator.manual_seed(seed)
        return generator


class Noise:
    def __init__(self):
        self.source = Source(0)
        source = self.source
        self.graph, self.out = captured(lambda: torch.randn(4, device=DEVICE, generator=source.rng), source.rng)

    def serve(self, seeds, set_seed):
        for seed in seeds:
            set_seed(self.source, seed)
            for _ in range(2):
                self.graph.replay()


class Replacing(Noise):
    def serve(self, seeds):
        for seed in seeds:
            self.source.rng = self.source.made(seed)  # expect: GS502
            self.graph.replay()


class Stream:
    def __init__(self, seed):
        self.generator = torch.Generator(device=DEVICE).manual_seed(seed)
        source = self
        draw = lambda: torch.randn(4, device=DEVICE, generator=source.generator)  # noqa: E731
        self.graph, self.out = captured(draw, source.generator)

    def begin(self, seed):
        self.generator = torch.Generator(device=DEVICE).manual_seed(seed)

    def go_on(self, state):
        self.generator = torch.Generator(device=DEVICE)
        self.generator.set_state(state)

    def draw(self):
        self.graph.replay()  # expect: GS502


def begun_or_continued():
    """Two lines may have put the generator there."""
    stream = Stream(0)
    stream.draw()
    stream.begin(1)
    stream.draw()


def restored():
    """The state of the default generator is put back before each replay."""
    graph, _ = captured(lambda: torch.rand(4, device=DEVICE))
    state = torch.cuda.get_rng_state()
    for _ in range(12):
        torch.cuda.set_rng_state(state)  # expect: GS503
        graph.replay()


def begin():
    torch.cuda.manual_seed(3)  # expect: GS503


def seeded_by_a_helper():
    """The seed before the loop is no fault."""
    torch.manual_seed(11)
    graph, _ = captured(lambda: torch.rand(4, device=DEVICE))
    for _ in range(12):
        begin()
        graph.replay()


def seeded_by_request():
    """Each request begins with the same seed, and its replays draw other numbers."""
    graph, _ = captured(lambda: torch.rand(4, device=DEVICE))
    for _ in range(12):
        torch.manual_seed(7)
        for _ in range(2):
            graph.replay()


def seeded_by_step():
    graph, _ = captured(lambda: torch.rand(4, device=DEVICE))
    for step in range(12):
        torch.manual_seed(step)
        graph.replay()


def without_draws():
    """The graph draws nothing."""
    x = torch.ones(4, device=DEVICE)
    graph, _ = captured(lambda: x * 2)
    for _ in range(12):
        torch.manual_seed(7)
        graph.replay()


def in_pairs():
    """Two replays share their numbers on purpose."""
    graph, _ = captured(lambda: torch.rand(4, device=DEVICE))
    for step in range(12):
        for _ in range(2):
            torch.manual_seed(step)
            graph.replay()


with torch.no_grad():
    Replacing().serve([1, 2, 3])
    begun_or_continued()
    Noise().serve([1, 2, 3], lambda source, seed: source.rng.manual_seed(seed))
    restored()
    seeded_by_a_helper()
    seeded_by_request()
    seeded_by_step()
    without_draws()
    in_pairs()
print("done")

"""Short scripts around graphs: a class captures, and `main` composes the objects, feeds them and reads the results."""

from __future__ import annotations

import pytest

from .conftest import Scan

PROGRAM = """
class Solver:
    def __init__(self, net, dt, device):
        self.net = net
        self.dt = dt
        self.x = torch.zeros(4, 8, device=device)
        self.pos = torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.net[0](self.x)
            self.pos.add_(self.y, alpha=self.dt)

    @torch.no_grad()
    def soften(self, decay):
        for p in self.net.parameters():
            {soften}

def main(device="cuda"):
    solver = Solver(nn.Sequential(nn.Linear(8, 8)).to(device), 0.1, device)
    path = []
    {loop}
        {body}
    print(len(path))

if __name__ == "__main__":
    main()
"""


def _scanned(scan: Scan, **parts: str) -> list[tuple[str, str]]:
    filled = {"soften": "p.mul_(decay)", "loop": "for i in range(6):", "body": "solver.graph.replay()", **parts}
    return scan(PROGRAM.format(**filled))


@pytest.mark.parametrize(
    ("loop", "body", "is_told"),
    [
        # The loop gives the graph new inputs, so it is no warm-up.
        ("for i in range(6):", "solver.x.copy_(torch.randn(4, 8, device=device)); solver.graph.replay()", True),
        ("for i in range(6):", "solver.graph.replay(); error = solver.y.sum()", True),
        ("for i in range(600):", "solver.graph.replay()", True),
        ("for i in range(3):", "solver.graph.replay()", False),
        ("for i in range(warmup):", "solver.x.copy_(torch.randn(4, 8, device=device)); solver.graph.replay()", False),
    ],
)
def test_a_short_loop_with_new_inputs_is_no_warm_up(scan: Scan, loop: str, body: str, is_told: bool) -> None:
    found = _scanned(scan, loop=loop, body=f"{body}; print(solver.y.max().item())")
    assert any(code == "GS101" for code, _ in found) is is_told


@pytest.mark.parametrize(
    ("body", "is_told"), [("solver.dt = solver.dt * 0.5", True), ("solver.rate = 0.5; solver.dt", False)]
)
def test_a_number_that_main_passes_to_the_constructor_changes(scan: Scan, body: str, is_told: bool) -> None:
    found = _scanned(scan, body=f"solver.graph.replay(); {body}")
    assert any(code == "GS702" for code, _ in found) is is_told


@pytest.mark.parametrize(
    ("kept", "is_told"), [("path.append(solver.pos)", True), ("path.append(solver.pos.clone())", False)]
)
def test_main_keeps_a_tensor_that_each_replay_changes(scan: Scan, kept: str, is_told: bool) -> None:
    found = _scanned(scan, body=f"solver.graph.replay(); {kept}")
    assert any(code == "GS706" for code, _ in found) is is_told


@pytest.mark.parametrize(
    ("soften", "is_told"), [("p.data = p.data * decay", True), ("p.data.mul_(decay)", False), ("p.mul_(decay)", False)]
)
def test_a_method_replaces_the_weights_although_only_main_replays(scan: Scan, soften: str, is_told: bool) -> None:
    found = _scanned(scan, soften=soften, body="solver.graph.replay(); solver.soften(0.9)")
    assert any(code == "GS711" for code, _ in found) is is_told


def test_main_sets_the_same_seed_before_each_call(scan: Scan) -> None:
    sampler = """
class Sampler:
    def __init__(self, device):
        self.p = torch.full((4,), 0.25, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.token = torch.multinomial(self.p, 1)

    def draw(self):
        self.graph.replay()
        return self.token.clone()

def main(device="cuda"):
    sampler = Sampler(device)
    for i in range(40):
        torch.cuda.manual_seed({seed})
        sampler.draw()

if __name__ == "__main__":
    main()
"""
    assert ("GS503", "torch.cuda.manual_seed(7)") in scan(sampler.format(seed=7))
    assert not [code for code, _ in scan(sampler.format(seed="i")) if code == "GS503"]


@pytest.mark.parametrize(
    ("returned", "is_told"),
    [
        ('{"name": name, "hidden": self.y}', True),
        ('{"name": name, "hidden": self.y.clone()}', False),
        ('{"name": name, "hidden": self.y.sum()}', False),
    ],
)
def test_a_method_returns_an_output_in_a_dict(scan: Scan, returned: str, is_told: bool) -> None:
    found = scan(
        f"""
class Server:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def handle(self, name, x):
        self.x.copy_(x)
        self.graph.replay()
        return {returned}

def serve(server, requests):
    answers = []
    for name, x in requests:
        answers.append(server.handle(name, x))
    return answers
"""
    )
    assert any(code == "GS706" for code, _ in found) is is_told


CACHE = """
class Decoder:
    def __init__(self, model, device):
        self.model = model
        self.graphs = {{}}
        self.ids = torch.zeros(4, dtype=torch.long, device=device)
        self.cache = torch.zeros(4, 64, 8, device=device)

    def graph_for(self, batch, upto):
        if batch not in self.graphs:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = self.model(self.ids[:batch], self.cache, upto)
            self.graphs[batch] = graph, out
        return self.graphs[batch]

    def step(self, tokens, pos):
        graph, out = self.graph_for(len(tokens), {given})
        graph.replay()
        return out.clone()

def main(decoder, tokens, device="cuda"):
    for pos in range(1, 40):
        decoder.step(tokens, {pos})
"""


@pytest.mark.parametrize(
    ("given", "pos", "is_told"),
    [
        ("pos", "pos", True),
        ("pos + 1", "pos", True),
        ("64", "pos", False),  # the same number in every call
        ("pos", "torch.tensor(pos)", False),  # not a number of the host
        ("self.cache", "pos", False),
    ],
)
def test_calls_show_that_an_argument_without_annotation_is_a_number(
    scan: Scan, given: str, pos: str, is_told: bool
) -> None:
    found = scan(CACHE.format(given=given, pos=pos))
    assert any(code == "GS713" for code, _ in found) is is_told


RING = """
class Ring:
    def __init__(self):
        self.slot = torch.zeros(4, 8, pin_memory=True)

    def put(self, target, {parameter}):
        with torch.cuda.stream(stream):
            target.copy_(self.slot, non_blocking=True)

def main(net, x, y):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(net(x))
    ring, stream = Ring(), torch.cuda.Stream()
    for _ in range(100):
        {wait}
        ring.put(x, stream)
        torch.cuda.current_stream().wait_stream(stream)
        graph.replay()
"""


@pytest.mark.parametrize(
    ("wait", "is_told"), [("stream.wait_stream(torch.cuda.current_stream())", False), ("pass", True)]
)
def test_the_caller_orders_a_stream_that_it_passes(scan: Scan, wait: str, is_told: bool) -> None:
    found = scan(RING.format(parameter="stream", wait=wait))
    assert any(code == "GS714" for code, _ in found) is is_told

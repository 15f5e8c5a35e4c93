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


ASKED = """
class Session:
    def __init__(self, searcher):
        self.searcher = searcher
        self.previous = None

    def ask(self, vector):
        ids = self.searcher.search(vector)
        if self.previous is not None:
            self.drift = (ids - self.previous).abs().sum()
        self.previous = {kept}
        return ids.clone()

class Searcher:
    def __init__(self, net, device):
        self.query = torch.zeros(1, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.ids = net(self.query)

    def search(self, vector):
        self.query.copy_(vector)
        self.graph.replay()
        return self.ids
"""


@pytest.mark.parametrize(("kept", "is_told"), [("ids", True), ("ids.clone()", False)])
def test_another_object_keeps_a_result_for_its_next_call(scan: Scan, kept: str, is_told: bool) -> None:
    found = scan(ASKED.format(kept=kept))
    assert any(code == "GS706" and line == f"self.previous = {kept}" for code, line in found) is is_told


SERVED = """
class Log:
    def __init__(self, device):
        self.rows = torch.zeros(100, 8, device=device)
        self.at = 0
        self.last = []

    def append(self, y):
        {body}

class Runner:
    def __init__(self, net, device):
        self.x = torch.zeros(1, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y

def serve(runner, log: Log, requests):
    for x in requests:
        log.append(runner.run(x))
"""


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ("self.rows[self.at].copy_(y); self.peak = y.abs().amax()", False),
        ("self.total = self.rows + y", False),
        ("self.last.append(y)", True),
        ("self.latest = y[0]", True),
    ],
)
def test_an_append_of_the_users_own_class(scan: Scan, body: str, is_told: bool) -> None:
    found = scan(SERVED.format(body=body))
    assert any(code == "GS706" for code, _ in found) is is_told


CALLER = """
class Registry:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(4, 8, device=device)
        self.entries = {{}}

    def record(self, shape, pooling):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self.net(self.x, pooling)
        return graph, out

    def lookup(self, shape, pooling):
        key = {key}
        if key in self.entries:
            return self.entries[key]
        {made}
        return self.entries[key]

    def encode(self, shape, pooling):
        graph, out = self.lookup(shape, pooling)
        graph.replay()
        return out.clone()

def main(registry, docs, queries):
    for batch in docs:
        registry.encode(batch.shape, "mean")
    for batch in queries:
        registry.encode(batch.shape, "cls")
"""


@pytest.mark.parametrize(
    ("key", "made", "is_told"),
    [
        ("tuple(shape)", "self.entries[key] = self.record(shape, pooling)", True),
        ("tuple(shape)", "slot = self.entries[key] = self.record(shape, pooling)", True),
        ("tuple(shape)", "graph, out = self.record(shape, pooling); self.entries[key] = graph, out", True),
        ("(tuple(shape), pooling)", "self.entries[key] = self.record(shape, pooling)", False),
        ("(tuple(shape), pooling)", "graph, out = self.record(shape, pooling); self.entries[key] = graph, out", False),
    ],
)
def test_a_table_of_graphs_that_returns_early(scan: Scan, key: str, made: str, is_told: bool) -> None:
    found = scan(CALLER.format(key=key, made=made))
    assert any(code == "GS713" for code, _ in found) is is_told


JOINED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.side = torch.cuda.Stream()

    def forward(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            y = self.a(x)
        {after}
        return z
"""


@pytest.mark.parametrize(
    ("after", "is_told"),
    [
        ("z = self.b(x) + y; torch.cuda.current_stream().wait_stream(self.side)", True),
        ("z = torch.cat((self.b(x), x)) @ torch.relu(y); torch.cuda.current_stream().wait_stream(self.side)", True),
        ("z = self.b(x); torch.cuda.current_stream().wait_stream(self.side); z = z + y", False),
        ("n = y.shape[0]; torch.cuda.current_stream().wait_stream(self.side); z = y * n", False),
        ("z = Later(y, x); torch.cuda.current_stream().wait_stream(self.side)", False),  # only stores it
        ("x.kept.append(y); torch.cuda.current_stream().wait_stream(self.side); z = y", False),
        ("torch.cuda.synchronize(); z = self.b(x) + y; torch.cuda.current_stream().wait_stream(self.side)", False),
    ],
)
def test_a_result_of_a_side_stream_is_read_before_the_join(scan: Scan, after: str, is_told: bool) -> None:
    found = scan(JOINED.format(after=after))
    assert any(code == "GS603" and "y" in line for code, line in found) is is_told


EARLY = """
class Voice:
    def __init__(self, net, device):
        self.x = torch.zeros(1, 8, device=device)
        self.pcm = torch.zeros(1, 8).pin_memory()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = net(self.x)

    def collect(self):
        self.graph.replay()
        self.pcm.copy_(self.y, non_blocking=True)
        {read}
"""


@pytest.mark.parametrize(
    ("read", "is_told"),
    [
        ("return self.pcm.numpy()[0, 0].copy()", True),
        ("return self.pcm.max() > 0.5", True),
        ("return self.pcm.clone()", True),
        ("return self.pcm.numpy()", False),  # shares the memory; the caller may wait
        ("return self.pcm.shape", False),
        ("torch.cuda.current_stream().synchronize(); return self.pcm.numpy()[0, 0].copy()", False),
    ],
)
def test_the_host_reads_pinned_memory_before_the_copy_is_complete(scan: Scan, read: str, is_told: bool) -> None:
    found = scan(EARLY.format(read=read))
    assert any(code == "GS714" for code, _ in found) is is_told


@pytest.mark.parametrize(
    ("seed", "more", "is_told"),
    [
        ("self.seed", "pass", True),
        ("7", "pass", True),
        ("self.seed", "self.seed += 1", False),
        ("seed", "pass", False),
    ],
)
def test_a_method_that_replays_sets_the_same_seed(scan: Scan, seed: str, more: str, is_told: bool) -> None:
    found = scan(
        f"""
class Sampler:
    def __init__(self, device, seed=3):
        self.seed = seed
        self.p = torch.full((4,), 0.25, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.token = torch.multinomial(self.p, 1)

    def draw(self, seed):
        torch.cuda.manual_seed({seed})
        self.graph.replay()
        {more}
        return self.token.clone()
"""
    )
    assert any(code == "GS503" and "manual_seed" in line for code, line in found) is is_told

"""Lines that change objects of a graph under other names: names that a tuple binds, local names of attributes, parts of
another object, and code between two loops of steps."""

from __future__ import annotations

import pytest

from .conftest import Scan

AGENT = """
import copy

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        return self.a(x)

class Means:
    def __init__(self, device):
        self.mean = torch.zeros(8, device=device)

    def observe(self, x):
        self.mean = self.mean * 0.9 + x.mean(0)

    def settle(self, x):
        self.mean.copy_(x.mean(0))

class Agent:
    def __init__(self, means, device):
        self.device, self.means = device, means
        self.online = Net().to(device)
        self.target = copy.deepcopy(self.online)
        self.rate = 1.0
        self.batch = {{"x": torch.zeros(4, 8, device=device)}}

    def act(self):
        x = self.batch["x"] - self.means.mean
        return self.online(x) + self.target(x) * self.rate

    def _record(self, step):
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            result = step()
        return graph, result

    def record(self):
        self.graph, self.y = self._record(self.act)

    def refresh(self):
        {refresh}

    def soften(self):
        self.target.load_state_dict(self.online.state_dict())

    def __call__(self):
        self.graph.replay()
        return self.y.clone()

class Trainer:
    def __init__(self, agent):
        self.agent = agent

    def run(self, batches):
        for x in batches:
            {step}

def collect(agent, means, batches):
    for x in batches:
        agent.batch["x"].copy_(x)
        agent.graph.replay()
    {after}

def main():
    device = torch.device("cuda")
    means = Means(device)
    sizes, agent = (4, 8), Agent(means, device)
    agent.record()
    batches = [torch.zeros(sizes, device=device)] * 100
    for x in batches:
        {body}
        agent.graph.replay()
        print(agent.y.shape)
    Trainer(agent).run(batches)
    for _ in range(10):
        collect(agent, means, batches)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("where", "line", "code"),
    [
        ("body", "agent.rate = agent.rate * 0.9", "GS702"),
        ("body", "agent.batch = {'x': torch.randn(4, 8, device=device)}", "GS703"),
        ("body", "agent.batch['x'].copy_(x)", None),
        ("refresh", "self.target = copy.deepcopy(self.online)", "GS707"),
        ("body", "agent.soften()", None),
        ("after", "means.observe(x)", "GS703"),
        ("after", "means.settle(x)", None),
        ("step", "used = self.agent; used.rate = used.rate * 0.9; self.agent()", "GS702"),
        ("step", "self.agent(); self.agent.online.to('cpu')", "GS711"),
        ("step", "self.agent(); kept = copy.deepcopy(self.agent.online).to('cpu')", None),
    ],
)
def test_objects_under_other_names(scan: Scan, where: str, line: str, code: str | None) -> None:
    line = line.replace("; ", "\n            ")
    parts = {"refresh": "pass", "step": "self.agent()", "after": "pass", "body": "agent.refresh()", where: line}
    found = {told for told, _ in scan(AGENT.format(**parts)) if told in ("GS702", "GS703", "GS707", "GS711", "GS503")}
    assert found == ({code} if code is not None else set())


SWEEPS = """
class Sweep:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.y = net(self.x + torch.randn(4, 8, device=device))

    def __call__(self):
        self.graph.replay()
        return self.y.clone()

class Simulation:
    def __init__(self, net, seed, device):
        self.seed = seed
        self.sweep = Sweep(net, device)

    def measure(self, rounds):
        for k in range(rounds):
            torch.cuda.manual_seed({seed})
            yield self.sweep()
"""


@pytest.mark.parametrize(("seed", "is_told"), [("self.seed", True), ("self.seed + k", False)])
def test_the_same_seed_before_each_call_of_an_object_that_replays(scan: Scan, seed: str, is_told: bool) -> None:
    assert (("GS503", f"torch.cuda.manual_seed({seed})") in scan(SWEEPS.format(seed=seed))) is is_told


READ = """
class Reader:
    def __init__(self, net, device):
        self.net = net
        self.host = torch.zeros(64, pin_memory=True)
        self.done = torch.cuda.Event()

    def __call__(self, x):
        n = x.shape[0]
        y = x.sum(-1)
        {copy}
        {between}
        return {read}

def main():
    model = Reader(nn.Linear(8, 1).cuda(), "cuda")
    while True:
        model(torch.zeros(4, 8, device="cuda"))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("copy", "between", "read", "is_told"),
    [
        ("self.host[:n].copy_(y, non_blocking=True)", "self.done.record()", "self.host[:n].tolist()", True),
        ("self.host[:n].copy_(y, non_blocking=True)", "self.done.synchronize()", "self.host[:n].tolist()", False),
        ("part = self.host[:n]; part.copy_(y, non_blocking=True)", "pass", "part.numpy().copy()", True),
        # The other row was copied in an earlier call.
        ("self.host[n % 2].copy_(y, non_blocking=True)", "pass", "self.host[(n + 1) % 2].tolist()", False),
        ("self.host[:n].copy_(y)", "pass", "self.host[:n].tolist()", False),
    ],
)
def test_a_part_of_pinned_memory_is_read_before_its_copy_is_complete(
    scan: Scan, copy: str, between: str, read: str, is_told: bool
) -> None:
    source = READ.format(copy=copy.replace("; ", "\n        "), between=between, read=read)
    assert any(code == "GS714" for code, _ in scan(source)) is is_told


EVOLVING = """
class Evolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(8, 8)
        self.first = nn.Parameter(torch.zeros(1, 8, 8))
        self.weight = None

    def forward(self, x):
        if self.weight is None:
            _, self.weight = self.cell(x, self.first)
        {later}
        return x @ self.weight.squeeze(0)
"""


@pytest.mark.parametrize(
    ("later", "codes"),
    [("else:\n            _, self.weight = self.cell(x, self.weight)", {"GS703"}), ("x = x + 1", {"GS701"})],
)
def test_a_value_that_later_steps_compute_anew_is_not_kept(scan: Scan, later: str, codes: set[str]) -> None:
    assert {code for code, _ in scan(EVOLVING.format(later=later))} == codes

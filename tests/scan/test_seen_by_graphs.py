"""State that captured code has read, and that code around the graph changes: in which cases scan speaks and in which
not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

Told = Callable[..., set[str]]

LAYERS = """\
import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width)
        self.up = nn.Parameter(torch.zeros(width, width))
        self.drop = nn.Dropout(0.1)
        self.scale = 1.0
        self.gain = torch.ones(1, device="cuda")
        self.turns = 0
        self.calls = 0

    def forward(self, x):
        if self.turns > 4:
            x = x * 2
        return self.base(self.drop(x)) + self.scale * (x @ self.up) * self.gain


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(Scaled(width) for _ in range(depth)).to("cuda")

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""

ENGINE = """\
import torch

from layers import Net


class Engine:
    def __init__(self, width, depth, device):
        self.net = Net(width, depth)
        self.x = torch.zeros(4, width, device=device)
        self.graph = None
        self.chosen = None

    def capture(self, stream):
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def infer(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

    def choose(self, weights, number, stream):
        for layer in self.net.layers:
            {change}

    def serve(self, requests, stream):
        for weights, number, x in requests:
            self.choose(weights, number, stream)
            self.infer(x)
"""


@pytest.fixture
def told(tmp_path: Path) -> Told:
    def run(*others: str, **texts: str) -> set[str]:
        """Return the lines with a finding about state (GS702, GS703, GS711) or of other rules, by their text."""
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        report = scan_paths([tmp_path], Config(root=tmp_path))
        assert not report.limits
        codes = {"GS702", "GS703", "GS711", *others}
        found = [one for one in report.findings if one.code in codes and one.level != "note"]
        lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in tmp_path.glob("*.py")}
        return {lines[Path(one.location.path).name][one.location.line - 1].strip() for one in found}

    return run


@pytest.mark.parametrize(
    "change",
    [
        "layer.scale = number / 8",
        "layer.up.data = weights",
        "layer.up = torch.nn.Parameter(weights)",
        "layer.base.weight = torch.nn.Parameter(weights)",
        "layer.gain = torch.full((1,), number, device='cuda')",
        "setattr(layer, 'scale', number / 8)",
        "layer.drop.p = number / 100",
        "layer.turns = number",  # captured code alone reads it, so it cannot choose the graph
    ],
)
def test_a_loop_changes_what_the_captured_module_has_read(told: Told, change: str) -> None:
    assert told(layers=LAYERS, engine=ENGINE.format(change=change)) == {change}


@pytest.mark.parametrize(
    "change",
    [
        "layer.up.data.copy_(weights)",
        "layer.gain.fill_(number)",
        "layer.base.weight.copy_(weights)",
        "layer.turns = number; self.chosen = self.net.layers[0].turns > 4",
        "layer.calls += 1",
        "layer.scale = 1.0",
        "layer.drop.place = number",
        "layer.drop.p = number / 100; self.capture(stream)",
        "layer.scale = number / 8; self.capture(stream)",
        "layer.scale = number / 8; self.graph = None",
        "layer.up = torch.nn.Parameter(weights); self.capture(stream)",
    ],
)
def test_changes_that_a_graph_sees(told: Told, change: str) -> None:
    assert told(layers=LAYERS, engine=ENGINE.format(change=change)) == set()


def test_a_setter_that_nobody_calls(told: Told) -> None:
    """Users may call it before the capture, unless it replaces what the constructor has made."""
    engine = ENGINE.format(change="pass") + (
        "\n    def refresh(self, weights):"
        "\n        self.net.head.weight = torch.nn.Parameter(weights)"
        "\n        self.chosen = weights.clone()\n"
    )
    net = LAYERS.replace('.to("cuda")', '.to("cuda")\n        self.head = nn.Linear(width, width)')
    net = net.replace("        return x\n", "        return self.head(x)\n")
    assert told(layers=net, engine=engine) == {"self.net.head.weight = torch.nn.Parameter(weights)"}
    constructed = engine.replace("self.chosen = None", "self.chosen = None\n        self.refresh(torch.ones(4, 4))")
    assert told(layers=net, engine=constructed) == set()


SEARCH = """
    import torch


    class State:
        def __init__(self, beams, device):
            self.history = torch.zeros(beams, 64, dtype=torch.long, device=device)
            self.emitted = 1

        @property
        def penalty(self):
            return self.emitted ** 0.6


    class Search:
        def __init__(self, scorer, state: State):
            self.scorer, self.state = scorer, state

        def _advance(self):
            s = self.state
            return (self.scorer(s.history) / s.penalty).argmax(-1)

        def capture(self, stream):
            self._advance()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.chosen = self._advance()

        def run(self, limit):
            s = self.state
            for _ in range(limit):
                self.graph.replay()
                {change}
            return s.history.clone()
    """


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("s.emitted += 1", True),
        ("s.history = s.history.gather(1, self.chosen)", True),
        ("s.history.copy_(s.history.gather(1, self.chosen))", False),
        ("s.seen = self.chosen.clone()", False),
    ],
)
def test_a_local_name_for_a_part_of_the_object(told: Told, change: str, found: bool) -> None:
    assert told(search=textwrap.dedent(SEARCH).replace("{change}", change)) == ({change} if found else set())


TRAINER = """
    import torch
    from torch import nn


    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.strength = 0.5

        def forward(self, x):
            return x * self.strength


    class Graphed:
        def __init__(self, net, x, stream):
            self.net, self.x = net, x
            self.net(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = self.net(self.x)

        def __call__(self, x):
            self.x.copy_(x)
            self.graph.replay()
            return self.y.clone()


    def train(net, graphed, epochs, batches):
        net.strength = 0.4
        for epoch in range(epochs):
            net.strength = 0.5 * (1 - epoch / epochs)
            for x in batches:
                graphed(x)


    def main(device, batches):
        net = Noise()
        graphed = Graphed(net, torch.zeros(4, 8, device=device), torch.cuda.Stream(device))
        train(net, graphed, 10, batches)
    """


def test_the_rounds_of_an_outer_loop(told: Told) -> None:
    """A line before all loops runs once, perhaps before the capture."""
    assert told(trainer=TRAINER) == {"net.strength = 0.5 * (1 - epoch / epochs)"}


BUCKETS = """
    import torch


    class Runner:
        def __init__(self, net, device):
            self.net = net
            self.length = 0
            self.x = torch.zeros(64, 8, device=device)
            self.graphs = {}

        def _forward(self):
            return self.net(self.x[: self.length]) * self.length

        def _capture(self, n, stream):
            {before}
            self._forward()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                y = self._forward()
            self.graphs[n] = graph, y

        def step(self, n, stream):
            self.length = n
            {ask}
            graph, y = self.graphs[n]
            graph.replay()
            return y.clone()
    """


@pytest.mark.parametrize(
    ("before", "ask"),
    [("self.length = n", "pass"), ("pass", "if n not in self.graphs: self._capture(n, stream)")],
)
def test_a_number_that_each_graph_has_for_itself(told: Told, before: str, ask: str) -> None:
    text = textwrap.dedent(BUCKETS).replace("{before}", before).replace("{ask}", ask)
    assert told(runner=text) == set()


POLICY = """
    import torch


    class Policy:
        def __init__(self, sizes, device):
            self.device = device
            self.weights = {}
            for name, size in sizes:
                self.weights[name] = torch.zeros(size, device=device)

        def act(self, x):
            return x @ self.weights["w"]
    """
MAILBOX = """
    class Mailbox:
        def collect(self, policy):
            for name, new in self.newest.items():
                {change}
    """
ACTOR = """
    import torch


    class Actor:
        def __init__(self, policy, mailbox, x, stream):
            self.policy = policy
            self.mailbox = mailbox
            self.x = x
            self.policy.act(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = self.policy.act(self.x)

        def rollout(self, env):
            for x in env:
                self.mailbox.collect(self.policy)
                self.x.copy_(x)
                self.graph.replay()
    """


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("policy.weights[name] = new.to(policy.device)", True),
        ("policy.weights[name].copy_(new)", False),
        ("policy.names[name] = new", False),
    ],
)
def test_classes_that_parameters_name(told: Told, change: str, found: bool) -> None:
    mailbox = textwrap.dedent(MAILBOX).replace("{change}", change)
    assert told(policy=POLICY, mailbox=mailbox, actor=ACTOR) == ({change} if found else set())


def test_a_name_that_two_classes_have_means_neither(told: Told) -> None:
    change = "policy.weights[name] = new.to(policy.device)"
    mailbox = textwrap.dedent(MAILBOX).replace("{change}", change)
    other = textwrap.dedent(POLICY).replace("class Policy", "class RandomPolicy")
    assert told(policy=POLICY, mailbox=mailbox, actor=ACTOR, other=other) == set()


LATER = """\
import torch


class Decoder:
    def __init__(self, net, device):
        self.net, self.device, self.depth = net, device, 0
        self.x = torch.zeros(4, 8, device=device)
        self.graphs = {{}}

    def run(self, width):
        return self.net(self.x[:width] + self.depth)

    def record(self, width):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(self.device)):
            self.y = self.run(width)
        return graph

    def advance(self, width):
        {before}
        if width not in self.graphs:
            self.graphs[width] = self.record(width)
        self.graphs[width].replay()
        {after}


def serve(decoder, widths):
    for width in widths:
        decoder.advance(width)
"""


@pytest.mark.parametrize(
    ("before", "after", "found"), [("pass", "self.depth += 1", True), ("self.depth += 1", "pass", False)]
)
def test_a_number_that_changes_behind_a_replay_is_not_what_a_later_capture_reads(
    tmp_path: Path, before: str, after: str, found: bool
) -> None:
    (tmp_path / "decoder.py").write_text(LATER.format(before=before, after=after), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert ("GS702" in {one.code for one in report.findings}) is found


WALKS = """\
import torch

from layers import Net


class Runner:
    def __init__(self, net, device):
        self.net = net
        self.x = torch.zeros(4, 8, device=device)

    def record(self, stream):
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Averaged:
    def __init__(self, net):
        self.net = net
        self.slow = [p.detach().clone() for p in net.parameters()]

    def put(self):
        for slow, p in zip(self.slow, self.net.parameters()):
            {change}


def main(stream, batches):
    device = torch.device("cuda")
    net = Net(8, 2)
    averaged = Averaged(net)
    runner = Runner(net, device)
    {before}
    runner.record(stream)
    for x in batches:
        runner(x)
        {inside}
"""


@pytest.mark.parametrize(
    ("change", "before", "inside", "expected"),
    [
        ("p.data = slow.clone()", "pass", "averaged.put()", {"p.data = slow.clone()"}),
        ("p.data = slow.clone()", "averaged.put()", "pass", set()),
        ("p.data = slow.clone()", "pass", "averaged.put(); runner.record(stream)", set()),
        # The names that a tuple binds have nothing to do with the loop.
        (
            "self.low, self.high = 0, 1\n        for p in self.net.parameters():\n            p.data = p.clone()",
            "pass",
            "averaged.put()",
            {"p.data = p.clone()"},
        ),
        ("p.data.copy_(slow)", "pass", "averaged.put()", set()),
        (
            "pass",
            "weights = {}",
            "net.load_state_dict(weights, assign=True)",
            {"net.load_state_dict(weights, assign=True)"},
        ),
        ("pass", "weights = {}", "net.load_state_dict(weights)", set()),
    ],
)
def test_weights_of_a_captured_module_get_other_memory(
    told: Told, change: str, before: str, inside: str, expected: set[str]
) -> None:
    engine = WALKS.format(change=change, before=before, inside=inside)
    assert told(layers=LAYERS, engine=engine) == expected


ROOM = """\
import torch


class Shelf:
    def __init__(self, width, device):
        self.rows = torch.zeros(4, width, device=device)
        self.used = 0

    def put(self, row):
        if self.used == len(self.rows):
            {grow}
        self.rows[self.used].copy_(row)
        self.used += 1


class Finder:
    def __init__(self, shelf: Shelf, width, device):
        self.shelf = shelf
        self.query = torch.zeros(width, device=device)

    def _find(self):
        return torch.softmax(self.shelf.rows @ self.query, 0)

    def arm(self, line):
        self._find()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self.found = self._find()

    def __call__(self, query):
        self.query.copy_(query)
        self.graph.replay()
        return self.found.clone()


def main(line):
    device = torch.device("cuda")
    shelf = Shelf(8, device)
    finder = Finder(shelf, 8, device)
    finder.arm(line)
    for _ in range(12):
        row = torch.randn(8, device=device)
        shelf.put(row)
        finder(row)
"""


def test_memory_of_another_object_grows_between_the_replays_of_a_short_loop(told: Told) -> None:
    bigger = "self.rows = torch.cat([self.rows, torch.zeros_like(self.rows)])"
    assert told(engine=ROOM.format(grow=bigger)) == {bigger}
    assert told(engine=ROOM.format(grow="raise MemoryError('the shelf is full')")) == set()


MEMBERS = """\
import torch


class Gate:
    def __init__(self, width, device):
        self.width = width
        self.curve = torch.linspace(0, 1, width, device=device)

    def apply(self, wave):
        return wave * self.curve * self.width


class Fold:
    def apply(self, wave):
        return torch.sin(wave)


class Rack:
    def __init__(self, parts, device):
        self.parts = parts
        self.wave = torch.zeros(64, device=device)

    def _run(self):
        wave = self.wave
        for part in self.parts:
            wave = part.apply(wave)
        return wave

    def arm(self, line):
        self._run()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self.out = self._run()

    def play(self, wave):
        self.wave.copy_(wave)
        self.graph.replay()
        return self.out.clone()


def main(line, waves):
    device = torch.device("cuda")
    gate = Gate(64, device)
    rack = Rack([gate, Fold()], device)
    {before}
    rack.arm(line)
    for place, wave in enumerate(waves):
        {inside}
        rack.play(wave)
"""


@pytest.mark.parametrize(
    ("before", "inside", "expected"),
    [
        ("pass", "gate.width = 64 / (1 + place)", {"gate.width = 64 / (1 + place)"}),
        ("pass", "gate.curve = torch.rand(64, device=device)", {"gate.curve = torch.rand(64, device=device)"}),
        ("gate.width = 32", "pass", set()),
        ("pass", "gate.curve.copy_(torch.rand(64, device=device))", set()),
        ("pass", "gate.width = 64 / (1 + place); rack.arm(line)", set()),
    ],
)
def test_a_member_of_a_list_is_changed_in_the_loop_that_replays(
    told: Told, before: str, inside: str, expected: set[str]
) -> None:
    assert told(engine=MEMBERS.format(before=before, inside=inside)) == expected


REQUESTS = """\
import torch


class Decoder:
    def __init__(self, pages, device):
        self.pages = pages
        self.tokens = torch.zeros(4, dtype=torch.long, device=device)
        self.tables = torch.stack([pages[0], pages[1]])
        self.graph = None

    def _decode(self):
        self.tokens.add_(self.tables.sum())

    def capture(self, line):
        self._decode()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=line):
            self._decode()

    def generate(self, slots, most):
        {before}
        for _ in range(most):
            self.graph.replay()
        return self.tokens.clone()
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (
            "self.tables = torch.stack([self.pages[one] for one in slots])",
            {"self.tables = torch.stack([self.pages[one] for one in slots])"},
        ),
        ("self.tables.copy_(torch.stack([self.pages[one] for one in slots]))", set()),
        ("self.asked = torch.stack([self.pages[one] for one in slots])", set()),
    ],
)
def test_a_request_changes_what_its_loop_of_replays_reads(told: Told, before: str, expected: set[str]) -> None:
    assert told(engine=REQUESTS.format(before=before)) == expected


PHASES = """\
import torch


class Wave:
    def __init__(self, device):
        self.fields = [torch.zeros(8, 8, device=device) for _ in range(3)]
        self.graphs = []
        self.phase = 0

    def roles(self, phase):
        return self.fields[phase % 3], self.fields[(phase + 1) % 3]

    def update(self, now, new):
        torch.mul(now, 0.5, out=new)

    def capture(self, line):
        for phase in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=line):
                self.update(*self.roles({given}))
            self.graphs.append(graph)

    def run(self, steps, probe):
        for at in range(steps):
            self.graphs[at % 3].replay()
            newest = self.roles(self.phase)[1]
            probe[at].copy_(newest[0, 0])
            self.phase = (self.phase + 1) % 3
"""


@pytest.mark.parametrize(
    ("given", "expected"), [("phase", set()), ("self.phase", {"self.phase = (self.phase + 1) % 3"})]
)
def test_a_captured_function_takes_a_number_that_other_callers_change(
    told: Told, given: str, expected: set[str]
) -> None:
    assert told(engine=PHASES.format(given=given)) == expected


RECORDS = """\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Cache:
    keys: torch.Tensor
    fill: torch.Tensor

    @classmethod
    def empty(cls, length):
        return cls(torch.zeros(length, 8, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda"))

    def cleared(self):
        return Cache(torch.zeros_like(self.keys), torch.zeros_like(self.fill))

    def clear(self):
        self.keys.zero_()
        self.fill.zero_()
        return self


class Engine:
    def __init__(self, stream):
        self.cache = Cache.empty(64)
        self.spare = [Cache.empty(64)]
        self.head = nn.Linear(8, 8, device="cuda")
        self.x = torch.zeros(64, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.head(self.x + self.cache.keys)

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Session:
    def __init__(self, stream):
        self.engine = Engine(stream)

    def begin(self):
        {change}

    def serve(self, batches):
        for number, x in enumerate(batches):
            if number % 100 == 0:
                self.begin()
            self.engine.step(x)
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("self.engine.cache = Cache.empty(64)", True),
        ("self.engine.cache = self.engine.cache.cleared()", True),
        ('self.engine.head = nn.Linear(8, 8, device="cuda")', True),
        ("self.engine.cache = self.engine.cache.clear()", False),  # the same object
        ("self.engine.cache = self.engine.spare[0]", False),  # perhaps there is a graph for each
        ("self.kept = Cache.empty(64)", False),
    ],
)
def test_few_steps_replace_an_object_that_the_graph_reads(told: Told, change: str, found: bool) -> None:
    assert told("GS707", engine=RECORDS.format(change=change)) == ({change} if found else set())


WRAPPED = """\
import torch
from torch import nn


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.sharpness = 1.0
        self.seen = 0

    def forward(self, x):
        return torch.tanh(self.body(x) * self.sharpness)


class Agent:
    def __init__(self):
        x = torch.zeros(4, 8, device="cuda")
        self.actor = torch.cuda.make_graphed_callables(Actor().cuda(), (x,))

    def sharpen(self, factor):
        {change}

    def act(self, batches):
        total = 0.0
        for number, x in enumerate(batches):
            total = total + self.actor(x).mean()
            if number % 10 == 9:
                self.sharpen(1.2)
        return total
"""


@pytest.mark.parametrize(
    ("change", "found"), [("self.actor.sharpness *= factor", True), ("self.actor.seen += 1", False)]
)
def test_few_steps_change_a_number_of_a_graphed_callable(told: Told, change: str, found: bool) -> None:
    assert told(engine=WRAPPED.format(change=change)) == ({change} if found else set())


ROLLBACK = """\
import torch
from torch import nn


class Trained:
    def __init__(self, net, optimizer, stream):
        self.net, self.optimizer, self.stream = net, optimizer, stream
        self.x = torch.zeros(4, 8, device="cuda")
        self.capture()

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.optimizer.zero_grad(set_to_none=False)
            self.net(self.x).mean().backward()
            self.optimizer.step()

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()


class Rollback:
    def __init__(self, optimizer, trained):
        self.optimizer, self.trained = optimizer, trained
        self.saved = optimizer.state_dict()

    def after(self, number):
        if number % 100 == 99:
            {change}


def train(batches, stream):
    net = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.{kind}(net.parameters(), lr=1e-3)
    trained = Trained(net, optimizer, stream)
    rollback = Rollback(optimizer, trained)
    for number, x in enumerate(batches):
        trained(x)
        rollback.after(number)
"""
LOADED = "self.optimizer.load_state_dict(self.saved)"


@pytest.mark.parametrize(
    ("kind", "change", "found"),
    [
        ("Adam", LOADED, True),
        ("SGD", LOADED, False),  # keeps no tensors
        ("Adam", f"{LOADED}; self.trained.capture()", False),
        ("Adam", "self.saved = self.optimizer.state_dict()", False),
    ],
)
def test_few_steps_load_the_state_of_a_captured_optimizer(told: Told, kind: str, change: str, found: bool) -> None:
    assert told(engine=ROLLBACK.format(kind=kind, change=change)) == ({change} if found else set())


SCHEDULE = """\
class Schedule:
    def __init__(self, optimizer, trained):
        self.optimizer, self.trained = optimizer, trained

    def after(self, number):
        for group in self.optimizer.param_groups:
            {change}
"""


@pytest.mark.parametrize(
    ("change", "step", "found"),
    [
        ('group["lr"] = 1e-3 / (number + 1)', "pass", True),
        ('group["lr"] *= 0.99', "pass", True),
        ('group["lr"].mul_(0.99)', "pass", False),
        ('group["name"] = str(number)', "pass", False),
        ('group["lr"] = 1e-3 / (number + 1)', "optimizer.step()", False),  # the step may be one of this optimizer alone
        ('group["lr"] = 1e-3 / (number + 1); self.trained.capture()', "pass", False),
    ],
)
def test_another_file_changes_the_rate_of_a_captured_optimizer(told: Told, change: str, step: str, found: bool) -> None:
    before, _, rest = ROLLBACK.format(kind="Adam", change="pass").partition("class Rollback:")
    script = rest[rest.index("def train") :].replace("Rollback(", "Schedule(") + f"        {step}\n"
    engine = f"from schedule import Schedule\n{before}{script}"
    assert told(engine=engine, schedule=SCHEDULE.format(change=change)) == (
        {change.partition(";")[0]} if found else set()
    )


POLLER = """\
import threading

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        return x - self.mean


class Poller{base}:
    def __init__(self, net, source):
        super().__init__()
        self.net, self.source = net, source
        {begin}

    def {method}(self):
        while True:
            mean = self.source.newest()
            {change}


class Server:
    def __init__(self, net, stream):
        self.net = net
        self.x = torch.zeros(4, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = net(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


def serve(batches, source, stream):
    net = Net().cuda()
    server = Server(net, stream)
    poller = Poller(net, source)
    for x in batches:
        server(x)
"""
MOVED = 'self.net.mean = torch.full((8,), mean, device="cuda")'


@pytest.mark.parametrize(
    ("base", "method", "begin", "change", "found"),
    [
        ("(threading.Thread)", "run", "self.start()", MOVED, True),
        ("", "_poll", "threading.Thread(target=self._poll, daemon=True).start()", MOVED, True),
        ("(threading.Thread)", "run", "self.start()", "self.net.mean.copy_(mean)", False),
        ("(threading.Thread)", "_prepare", "self.start()", MOVED, False),
    ],
)
def test_a_thread_gives_a_captured_module_another_tensor(
    told: Told, base: str, method: str, begin: str, change: str, found: bool
) -> None:
    text = POLLER.format(base=base, method=method, begin=begin, change=change)
    assert told(engine=text) == ({change} if found else set())


ROUNDS = """\
import torch
from torch import nn


class World:
    def __init__(self):
        self.goal = torch.zeros(8, device="cuda")

    def act(self, x):
        return x - self.goal


class Curriculum:
    def __init__(self):
        self.radius = 1.0

    def next_goals(self, world):
        {change}


class Collector:
    def __init__(self, world):
        self.world = world
        self.x = torch.zeros(4, 8, device="cuda")

    def capture(self, stream):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.world.act(self.x)

    def collect(self, steps):
        for _ in range(steps):
            self.graph.replay()


def main(stream):
    world, curriculum = World(), Curriculum()
    collector = Collector(world)
    collector.capture(stream)
    for number in range(100):
        {before}
        curriculum.next_goals(world)
        collector.collect(25)
"""
GOALS = "world.goal = self.radius * torch.rand(8, device='cuda')"


@pytest.mark.parametrize(
    ("change", "before", "found"),
    [
        (GOALS, "print(number)", True),
        ("world.goal.copy_(self.radius * torch.rand(8, device='cuda'))", "print(number)", False),
        (GOALS, "world = World(); collector = Collector(world); collector.capture(stream)", False),
    ],
)
def test_the_rounds_of_a_script_around_a_method_that_replays(told: Told, change: str, before: str, found: bool) -> None:
    assert told(engine=ROUNDS.format(change=change, before=before)) == ({change} if found else set())


UPDATER = """\
import torch
from torch import nn

from layers import Net


class Runner:
    def __init__(self, net, stream):
        self.net = net
        self.x = torch.zeros(4, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = net(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Updater:
    def __init__(self, owners):
        self.owners = owners

    def apply(self, weights):
        for name, value in weights.items():
            owner, leaf = self.owners.find(name)
            {change}


def main(batches, stream, owners):
    net = Net(8, 2)
    runner = Runner(net, stream)
    updater = Updater(owners)
    for x, weights in batches:
        updater.apply(weights)
        runner(x)
"""
PUT = "setattr(owner, leaf, nn.Parameter(value.clone()))"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (PUT, True),
        ("getattr(owner, leaf).copy_(value)", False),
        ("setattr(owner, leaf, value)", False),  # perhaps no tensor
    ],
)
def test_a_module_gets_other_weights_by_their_names(told: Told, change: str, found: bool) -> None:
    engine = UPDATER.format(change=change)
    assert told(layers=LAYERS, engine=engine) == ({change} if found else set())


STAGES = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.{layer})
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))


class Trainer:
    def __init__(self, net, stream):
        self.net, self.slow = net, Net()
        self.x = torch.zeros(4, 8, device="cuda")
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.stream = stream
        self.capture()

    def capture(self):
        self.update()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.update()

    def update(self):
        loss = self.net(self.x).square().mean()
        {backward}
        self.opt.step()

    def fit(self, batches, stages):
        for number, x in enumerate(batches):
            stages.before(self, number)
            self.x.copy_(x)
            self.graph.replay()
            stages.after(self)


class Stages:
    def before(self, trainer, number):
        if number == 30:
            {change}

    def after(self, trainer):
        {after}


def main(batches, stream):
    Trainer(Net().cuda(), stream).fit(batches, Stages())
"""
TO_EVAL, FREEZE = "trainer.net.eval()", "trainer.net.body.requires_grad_(False)"


@pytest.mark.parametrize(
    ("change", "layer", "backward", "after", "found"),
    [
        (TO_EVAL, "Dropout(0.1)", "loss.backward()", "pass", True),
        (FREEZE, "ReLU()", "loss.backward()", "pass", True),
        (TO_EVAL, "Dropout(0.1)", "loss.backward()", "trainer.net.train()", False),
        (FREEZE, "ReLU()", "loss.backward()", "trainer.net.body.requires_grad_()", False),
        ("trainer.slow.eval()", "Dropout(0.1)", "loss.backward()", "pass", False),  # the graph trains another object
        (TO_EVAL, "ReLU()", "loss.backward()", "pass", False),  # no layer depends on the mode
        (FREEZE, "ReLU()", "pass", "pass", False),  # the graph computes no gradients
        ("trainer.net.train()", "Dropout(0.1)", "loss.backward()", "pass", False),  # the mode of the capture
        (f"{FREEZE}; trainer.capture()", "ReLU()", "loss.backward()", "pass", False),
    ],
)
def test_few_steps_switch_the_mode_of_a_module_that_a_graph_trains(
    told: Told, change: str, layer: str, backward: str, after: str, found: bool
) -> None:
    engine = STAGES.format(change=change, layer=layer, backward=backward, after=after)
    assert told(engine=engine) == ({change} if found else set())


ADAPTERS = """\
import torch
from torch import nn


class Low(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 8)
        self.down = torch.zeros(8, 8, device="cuda")

    def forward(self, x):
        return self.base(x) + x @ self.down


class Server:
    def __init__(self, stream):
        self.net = nn.Sequential(*(Low() for _ in range(3))).cuda()
        self.manager = Manager(list(self.net))
        self.x = torch.zeros(4, 8, device="cuda")
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def serve(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


class Manager:
    def __init__(self, layers):
        self.layers = layers
        self.store = {{}}

    def register(self, name, downs):
        self.store[name] = downs

    def activate(self, name):
        for layer, down in zip(self.layers, self.store[name]):
            {change}


def main(requests, stream):
    server = Server(stream)
    for name, x in requests:
        server.manager.activate(name)
        server.serve(x)
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [("layer.down = down", True), ("layer.down.copy_(down)", False), ("layer.down = self.store[name]", False)],
)
def test_an_unknown_value_takes_the_place_of_a_tensor(told: Told, change: str, found: bool) -> None:
    assert told(engine=ADAPTERS.format(change=change)) == ({change} if found else set())


POOL = """\
import torch


class Pool:
    def __init__(self, device):
        self.rows = torch.zeros(8, 4, device=device)

    def clear(self):
        {change}
"""
RUNNER = """\
import torch


class Runner:
    def __init__(self, pool, stream):
        self.pool = pool
        self.x = torch.zeros(4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.pool.rows @ self.x

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""
SCRIPT = """\
from pool import Pool
from runner import Runner


def main(waves, stream, device):
    pool = Pool(device)
    runner = Runner(pool, stream)
    {lines}


if __name__ == "__main__":
    main()
"""
TWICE = "a = runner.run(waves[0])\n    pool.clear()\n    b = runner.run(waves[1])"


@pytest.mark.parametrize(
    ("lines", "change", "found"),
    [
        (TWICE, "self.rows = self.rows * 0", True),
        (TWICE, "self.rows.zero_()", False),
        ("pool.clear()\n    a = runner.run(waves[0])", "self.rows = self.rows * 0", False),  # no replay comes before
        ("a = runner.run(waves[0])\n    pool.clear()", "self.rows = self.rows * 0", False),  # no replay follows
    ],
)
def test_a_script_in_a_file_of_its_own_changes_state_between_the_replays(
    told: Told, lines: str, change: str, found: bool
) -> None:
    files = {"pool": POOL.format(change=change), "runner": RUNNER}
    assert told(**files, main=SCRIPT.format(lines=lines)) == ({change} if found else set())


BATCHES = """\
import torch
import torch.nn.functional as F


class Batch:
    def __init__(self, ids, lens):
        self.ids, self.lens = ids, lens

    def pad(self, n):
        self.lens = F.pad(self.lens, (0, n - self.lens.shape[0]))  # padded


class Runner:
    def __init__(self, model, ids, lens, queue):
        self.model, self.queue = model, queue
        self.batch = Batch(ids, lens)
        self.graph = torch.cuda.CUDAGraph()
        self.model(self.batch.ids, self.batch.lens)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.batch.ids, self.batch.lens)

    def step(self, ids, lens):
        {waiting}
        return self.run(self.queue.get(), ids)

    def run(self, batch: Batch, ids):
        batch.pad(16)
        self.batch.ids.copy_(ids)
        self.graph.replay()
        return self.out.clone(), batch.lens
"""


@pytest.mark.parametrize(("waiting", "found"), [("pass", True), ("self.queue.put(Batch(ids, lens))", False)])
def test_objects_of_a_class_of_which_steps_make_objects_are_not_those_that_a_graph_reads(
    tmp_path: Path, waiting: str, found: bool
) -> None:
    source = BATCHES.format(waiting=waiting)
    (tmp_path / "runner.py").write_text(source, encoding="utf-8")
    padded = next(number for number, line in enumerate(source.splitlines(), 1) if "# padded" in line)
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert (("GS703", padded) in {(one.code, one.location.line) for one in findings if one.level != "note"}) is found


COURSE = """\
import torch


class Course:
    def __init__(self):
        self.points = [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]
        self.active = 1

    @property
    def goal(self):
        return self.points[self.active % 3]

    def advance(self):
        self.active += 1


class Planner:
    def __init__(self, course, stream):
        self.course, self.x = course, torch.zeros(4, device="cuda")
        self._plan()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.plan = self._plan()

    def _plan(self):
        {captured}

    def act(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.plan.clone()


def drive(steps, x):
    planner = Planner(Course(), torch.cuda.Stream())
    for step in range(steps):
        planner.act(x)
        if step % 6 == 5:
            planner.course.advance()
"""


@pytest.mark.parametrize(
    ("captured", "found"),
    [
        ("x, y = self.course.goal; return (self.x - x).square() + y", True),
        ("return self.x - self.course.goal[0]", True),
        ("x, y = self.course.points[0]; return (self.x - x).square() + y", False),
    ],
)
def test_a_number_selects_a_row_of_a_table(told: Told, captured: str, found: bool) -> None:
    assert ("self.active += 1" in told(course=COURSE.format(captured=captured))) is found


REFERENCE = """\
import copy

import torch


def divergence(net, other, x):
    return net(x) - other(x)


class Engine:
    def __init__(self, policy, x):
        self.policy, self.x = policy, x
        self.reference = copy.deepcopy(policy)
        self.graph, self.steps = None, 0

    def record(self, stream):
        divergence(self.policy, self.reference, self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.out = divergence(self.policy, self.reference, self.x)

    def train(self, x):
        self.x.copy_(x)
        self.graph.replay()
        self.steps += 1
        if self.steps % 4 == 0:
            self.sync()

    def sync(self):
        {change}
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("self.reference = copy.deepcopy(self.policy).requires_grad_(False)", True),
        ("self.reference.load_state_dict(self.policy.state_dict())", False),
        ("self.reference = copy.deepcopy(self.policy); self.record(torch.cuda.Stream())", False),
    ],
)
def test_a_copy_replaces_a_module_that_captured_code_passes_on(told: Told, change: str, found: bool) -> None:
    assert any(line.startswith("self.reference =") for line in told(engine=REFERENCE.format(change=change))) is found


SIMULATION = """\
import copy
import dataclasses

import torch


@dataclasses.dataclass
class State:
    pos: torch.Tensor
    vel: torch.Tensor
    name: str = ""


class Simulation:
    def __init__(self, stream):
        self.state = State(torch.zeros(4, 3, device="cuda"), torch.ones(4, 3, device="cuda"))
        self._step()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._step()

    def _step(self):
        self.state.pos.add_(self.state.vel, alpha=0.01)

    def reset(self, pos):
        {reset}

    def advance(self, state):
        {before}
        self.graph.replay()


def main(states):
    simulation = Simulation(torch.cuda.Stream())
    for state in states:
        simulation.reset(torch.rand(4, 3, device="cuda"))
        simulation.advance(state)
"""


@pytest.mark.parametrize(
    ("reset", "before", "found"),
    [
        ("self.state = dataclasses.replace(self.state, pos=pos.clone())", "pass", {"self.state ="}),
        ("self.state = dataclasses.replace(self.state, name='reset')", "pass", set()),
        ("self.state.pos.copy_(pos)", "pass", set()),
        ("pass", "self.state = state", {"self.state ="}),
        ("pass", "self.state.pos.copy_(state.pos)", set()),
    ],
)
def test_another_object_with_the_tensors_that_a_graph_reads(
    told: Told, reset: str, before: str, found: set[str]
) -> None:
    lines = told("GS707", simulation=SIMULATION.format(reset=reset, before=before))
    assert {line[: line.index("=") + 1] for line in lines} == found


SERVER = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, x):
        return self.lin(x)


class Server:
    def __init__(self, net, stream):
        self.net, self.stream = net, stream
        self.x = torch.zeros(4, 16, device="cuda")
        self.graph = None
        self.capture(net)

    def capture(self, net):
        net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.net(self.x)

    def reload(self, state):
        fresh = Net().cuda()
        fresh.load_state_dict(state)
        {reload}

    def infer(self, x):
        if self.graph is None:
            self.capture(self.net)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


def main(requests):
    server = Server(Net().cuda(), torch.cuda.Stream())
    for number, x in enumerate(requests):
        if number % 100 == 99:
            server.reload(torch.load("weights.pt"))
        server.infer(x)
"""


@pytest.mark.parametrize(
    ("reload", "found"),
    [
        ("self.net = fresh", True),
        ("self.net = fresh; self.graph = None", False),
        ("self.net.load_state_dict(fresh.state_dict())", False),
    ],
)
def test_a_new_module_under_a_local_name_replaces_a_captured_one(told: Told, reload: str, found: bool) -> None:
    source = SERVER.format(reload=reload.replace("; ", "\n        "))
    assert ("self.net = fresh" in told(server=source)) is found


AVERAGE = """\
import torch


class Average:
    def __init__(self, net):
        self.shadow = {{name: p.detach().clone() for name, p in net.named_parameters()}}

    def update(self, net):
        for name, p in net.named_parameters():
            {update}


class Evaluator:
    def __init__(self, net, average, stream):
        self.x = torch.zeros(4, 16, device="cuda")
        torch.func.functional_call(net, average.shadow, (self.x,))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = torch.func.functional_call(net, average.shadow, (self.x,))

    def evaluate(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


def main(batches):
    net = torch.nn.Linear(16, 16).cuda()
    average = Average(net)
    evaluator = Evaluator(net, average, torch.cuda.Stream())
    for x in batches:
        average.update(net)
        evaluator.evaluate(x)
"""


@pytest.mark.parametrize(
    ("update", "found"),
    [
        ("self.shadow[name] = 0.9 * self.shadow[name] + 0.1 * p.detach()", True),
        ("self.shadow[name] = torch.lerp(self.shadow[name], p.detach(), 0.1)", True),
        ("self.shadow[name].mul_(0.9).add_(p.detach(), alpha=0.1)", False),
    ],
)
def test_a_moving_average_makes_new_tensors(told: Told, update: str, found: bool) -> None:
    assert any(line.startswith("self.shadow[name] =") for line in told(average=AVERAGE.format(update=update))) is found


LATTICE = """\
import torch


class Lattice:
    def __init__(self, stream):
        self.a = torch.zeros(64, 64, device="cuda")
        self.b = torch.zeros(64, 64, device="cuda")
        self._relax()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._relax()
        self.graphs = [self.graph]

    def _relax(self):
        self.b.copy_(0.5 * (self.a.roll(1, 0) + self.a.roll(-1, 0)))

    def sweep(self, rounds):
        for k in range(rounds):
            {replay}
            {change}


def main():
    lattice = Lattice(torch.cuda.Stream())
    for _ in range(10):
        lattice.sweep(10)
"""


@pytest.mark.parametrize(
    ("replay", "change", "found"),
    [
        ("self.graph.replay()", "self.a, self.b = self.b, self.a", True),
        ("self.graph.replay()", "self.a.copy_(self.b)", False),
        # There may be one graph for each order of the buffers.
        ("self.graphs[k % 2].replay()", "self.a, self.b = self.b, self.a", False),
        ("graph = self.graphs[k % 2]; graph.replay()", "self.a, self.b = self.b, self.a", False),
        (
            "self.graph.replay(); self.graph, self.other = self.other, self.graph",
            "self.a, self.b = self.b, self.a",
            False,
        ),
    ],
)
def test_a_loop_exchanges_the_buffers_of_a_graph(told: Told, replay: str, change: str, found: bool) -> None:
    lines = told("GS707", lattice=LATTICE.format(replay=replay.replace("; ", "\n            "), change=change))
    assert ("self.a, self.b = self.b, self.a" in lines) is found


SWITCHED = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.lin = nn.Dropout(0.1), nn.Linear(16, 16)

    def forward(self, x):
        return self.lin(self.drop(x))


class Runner:
    def __init__(self, stream):
        self.net = Head().cuda().train()
        self.x = torch.zeros(4, 16, device="cuda")
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def run(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

    def evaluate(self, batches):
        self.net.eval()  # switch
        results = [{run}(x) for x in batches]
        self.net.train()
        return results


def main(batches):
    runner = Runner(torch.cuda.Stream())
    for x in batches:
        runner.run(x)
        runner.evaluate(batches)
"""


@pytest.mark.parametrize(("run", "found"), [("self.run", True), ("self.net", False)])
def test_replays_after_a_change_of_mode(told: Told, run: str, found: bool) -> None:
    assert ("self.net.eval()  # switch" in told(runner=SWITCHED.format(run=run))) is found

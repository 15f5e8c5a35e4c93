"""State of the host in its guises: what a step writes and a later one reads without the device is frozen in a graph."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

HEAD = (
    "import itertools, math, time, random, collections, functools\n"
    "import numpy as np\nimport torch\nfrom torch import nn\n\n"
)


def found(tmp_path: Path, source: str) -> list[tuple[str, str]]:
    """Code and line of each finding above note, allocations aside."""
    text = HEAD + textwrap.dedent(source)
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [
        (f.code, lines[f.location.line - 1].strip())
        for f in scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
        if f.level != "note" and f.code != "GS401"
    ]


def module(step: str, made: str = "pass", more: str = "") -> str:
    """A module with these lines in its constructor and `forward`, and further methods."""
    parts = [
        "class Step(nn.Module):",
        "    def __init__(self, options=None, every=4):",
        "        super().__init__()",
        textwrap.indent(textwrap.dedent(made), " " * 8),
        "    def forward(self, x: torch.Tensor):",
        textwrap.indent(textwrap.dedent(step), " " * 8),
        textwrap.indent(textwrap.dedent(more), " " * 4),
    ]
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("made", "step", "more", "expected"),
    [
        ("self.turn = 0", "self.turn ^= 1\nreturn x * (1 + self.turn)", "", ("GS702", "self.turn ^= 1")),
        (
            "self.time = 0.0\nself.pace = options.pace",
            "self.time += self.pace\nreturn x * math.sin(self.time)",
            "",
            ("GS702", "self.time += self.pace"),
        ),
        (
            "self.n, self.every = 0, 100",
            "self.n += 1\nif self.n % self.every == 0:\n    x = x.norm()\nreturn x",
            "",
            ("GS702", "self.n += 1"),
        ),
        (
            "self.last = None",
            "y = x.exp()\nold, self.last = self.last, y\nreturn y if old is None else y + old",
            "",
            ("GS703", "old, self.last = self.last, y"),
        ),
        (
            "self.net = nn.Linear(4, 4)\nself.mean = {n: p.clone() for n, p in self.net.named_parameters()}",
            "for n, p in self.net.named_parameters():\n    self.mean[n] = self.mean[n] * 0.9 + p * 0.1\nreturn x",
            "",
            ("GS703", "self.mean[n] = self.mean[n] * 0.9 + p * 0.1"),
        ),
        (
            "self.info = {'seen': 0}",
            "self.info['seen'] += 1\nreturn x / self.info['seen']",
            "",
            ("GS702", "self.info['seen'] += 1"),
        ),
        (
            "self._n = 0",
            "self.n += 1\nreturn x[: self.n]",
            "@property\ndef n(self):\n    return self._n\n@n.setter\ndef n(self, value):\n    self._n = value",
            None,
        ),
        (
            "self.rates = itertools.cycle((0.1, 0.2))",
            "return x * next(self.rates)",
            "",
            ("GS702", "return x * next(self.rates)"),
        ),
        (
            "self.ring = collections.deque(range(4))\nself.rows = torch.zeros(4, 2, device='cuda')",
            "slot = self.ring[0]\nself.ring.rotate(-1)\nself.rows[slot].copy_(x)\nreturn self.rows",
            "",
            ("GS702", "self.ring.rotate(-1)"),
        ),
        (
            "self.free = list(range(4))\nself.rows = torch.zeros(4, 2, device='cuda')",
            "self.rows.narrow(0, self.free.pop(), 1).copy_(x)\nreturn self.rows",
            "",
            ("GS702", "self.rows.narrow(0, self.free.pop(), 1).copy_(x)"),
        ),
        (
            "self.at = 0",
            "setattr(self, 'at', self.at + 1)\nreturn x * self.at",
            "",
            ("GS702", "setattr(self, 'at', self.at + 1)"),
        ),
        (
            "self.at = 0\nself.table = (0.1, 0.2, 0.4)",
            "self.at = (self.at + 1) % 3\nreturn x * self.table[self.at]",
            "",
            ("GS702", "self.at = (self.at + 1) % 3"),
        ),
        (
            "self.lens = [1, 2]",
            "self.lens = [n + 1 for n in self.lens]\nreturn x.narrow(0, 0, max(self.lens))",
            "",
            ("GS702", "self.lens = [n + 1 for n in self.lens]"),
        ),
        (
            "self.calls = 0\nself.curve = options",
            "self.calls += 1\nreturn x * self.curve(self.calls)",
            "",
            ("GS702", "self.calls += 1"),
        ),
        (
            "self.begun = time.monotonic()",
            "now = time.monotonic()\nself.age = now - self.begun\nreturn x * self.age",
            "",
            ("GS702", "now = time.monotonic()"),
        ),
        (
            "self.since = 0\nself.total = torch.zeros(2, device='cuda')\nself.every = every",
            "self.since += 1\nif self.since % self.every == 0:\n    self.flush()\nreturn x",
            "def flush(self):\n    self.total.zero_()",
            ("GS702", "self.since += 1"),
        ),
    ],
    ids=(
        "xor sine interval read-first walked-parameters dict-entry property iterator deque pop setattr table list curve"
        " clock branch"
    ).split(),
)
def test_numbers_that_steps_advance(
    tmp_path: Path, made: str, step: str, more: str, expected: tuple[str, str] | None
) -> None:
    told = found(tmp_path, module(step, made, more))
    assert told == [expected or ("GS702", "self._n = value")]


@pytest.mark.parametrize(
    ("made", "step"),
    [
        ("self.info = {'size': 3}", "return x[: self.info['size']]"),
        ("self.rates = (0.1, 0.2)", "return x * next(iter(self.rates))"),
        ("self.seen = 0", "self.seen += 1\nreturn x * 2"),
        (
            "self.n, self.log_every = 0, 100",
            "self.n += 1\nif self.n % self.log_every == 0:\n    print(x.norm().shape)\nreturn x * 2",
        ),
        ("self.names = ['a', 'b']", "names = list(self.names)\nnames.pop()\nreturn x * len(names)"),
        ("self.size = 0", "self.size = x.shape[0]\nreturn x[: self.size]"),
        ("self.last = None", "self.last = x.exp()\nreturn self.last + 1"),
        (
            "self.items = [Item() for _ in range(4)]",
            "for item in self.items:\n    seen = item.done\n    item.done = x.exp()\nreturn x",
        ),
    ],
    ids="constant-entry new-iterator unused-counter log-interval copy set-anew bound-first of-an-item".split(),
)
def test_numbers_that_do_not_change_or_decide_nothing(tmp_path: Path, made: str, step: str) -> None:
    item = "class Item:\n    def __init__(self):\n        self.done = None\n\n"
    assert found(tmp_path, item + module(step, made)) == []


@pytest.mark.parametrize(
    ("made", "step", "code", "line"),
    [
        (
            "self.front = torch.zeros(2, device='cuda')\nself.back = torch.zeros(2, device='cuda')",
            "self.front.copy_(x)\nself.front, self.back = self.back, self.front\nreturn self.front + x",
            "GS703",
            "self.front, self.back = self.back, self.front",
        ),
        (
            "self.left = [torch.zeros(2, device='cuda')]",
            "y = x + self.left[0]\nself.left[0] = x * 2\nreturn y",
            "GS703",
            "self.left[0] = x * 2",
        ),
        (
            "self.slow = [torch.zeros(2, device='cuda')]",
            "self.slow = [0.9 * s + x for s in self.slow]\nreturn self.slow[0]",
            "GS703",
            "self.slow = [0.9 * s + x for s in self.slow]",
        ),
        (
            "self.window = torch.zeros(4, 2, device='cuda')",
            "self.window = torch.cat([self.window[1:], x])\nreturn self.window.sum(0)",
            "GS703",
            "self.window = torch.cat([self.window[1:], x])",
        ),
        (
            "self.spread = None",
            "self.spread = self.spread if self.spread is not None else x.std()\nreturn x / self.spread",
            "GS701",
            "self.spread = self.spread if self.spread is not None else x.std()",
        ),
        (
            "pass",
            "try:\n    return x / self.peak\nexcept AttributeError:\n    self.peak = x.amax()\nreturn x / self.peak",
            "GS701",
            "self.peak = x.amax()",
        ),
        (
            "self.ready, self.keys = {}, {}",
            "if self.ready.get(0):\n    return self.keys[0]\n"
            "self.keys[0] = x * 2\nself.ready[0] = True\nreturn self.keys[0]",
            "GS701",
            "self.keys[0] = x * 2",
        ),
    ],
    ids="swap list-slot rebuilt-list sliding-window kept-or-made except flag".split(),
)
def test_tensors_that_steps_replace_or_make_once(tmp_path: Path, made: str, step: str, code: str, line: str) -> None:
    assert found(tmp_path, module(step, made)) == [(code, line)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("self.h = new.detach()", "GS703"),
        ("self.h = new.data", "GS703"),
        ("self.h = new.transpose(0, 1).contiguous().t()", "GS703"),
        ("self.h = new.chunk(2)[0]", "GS703"),
        ("self.h = self.h.add(x).mul_(2)", "GS703"),
        ("self.h = torch.cat([self.h, x]).view(-1, 8)", "GS402"),
        ("self.h = torch.cat([self.h[1:], x]).detach()", "GS703"),
        ("self.h = self.h.detach()", None),
        ("self.h = self.h.view(2, 8)", None),
        ("shown = new.detach()", None),
    ],
)
def test_a_view_of_a_new_tensor_is_at_a_new_address(tmp_path: Path, line: str, code: str | None) -> None:
    made = "self.cell = nn.GRUCell(8, 8)\nself.h = torch.zeros(2, 8, device='cuda')"
    source = module(f"new = self.cell(x, self.h)\n{line}\nreturn new * 2", made)
    assert found(tmp_path, source) == ([(code, line)] if code is not None else [])


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("self.h, self.p = self.p, self.h", True),
        ("self.h = self.h.add(x)", True),
        ("self.h = self.h.lerp(x, 0.1)", True),
        ("self.h = x * 1", False),
        ("self.h.add_(x)", False),
        ("self.seen = self.seen.add(1)", False),
    ],
)
def test_a_setter_gives_an_attribute_another_tensor(tmp_path: Path, line: str, is_found: bool) -> None:
    made = "self.h = torch.zeros(2, device='cuda')\nself.p = torch.zeros(2, device='cuda')\nself.seen = torch.zeros(2)"
    setter = "def reset(self, h, p, seen):\n    self.h, self.p, self.seen = h, p, seen"
    source = module(f"{line}\nreturn self.h + x", made, setter)
    assert found(tmp_path, source) == ([("GS703", line)] if is_found else [])


@pytest.mark.parametrize(
    ("step", "is_found"),
    [
        ("x = x * 2 if time.time() % 20 < 10 else x * 3", True),
        ("k = 2 if time.time() > 5 else 3\nx = x * k", True),
        ("k = 2 if time.time() > 5 else 3\nprint(k)", False),
        ("shown = x.detach() if time.time() > 5 else None", False),
        ("name = 'late' if time.time() > 5 else 'early'", False),
    ],
)
def test_a_clock_in_a_conditional_expression(tmp_path: Path, step: str, is_found: bool) -> None:
    line = step.partition("\n")[0]
    assert found(tmp_path, module(f"{step}\nreturn x + 1")) == ([("GS702", line)] if is_found else [])


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("self.rows[n].append(x)", "GS402"),
        ("self.rows = defaultdict(list)\nself.rows[n].append(x)", None),
        ("rows = defaultdict(list)\nrows[n].append(x)", None),
        ("self.counts[n] += 1", None),
        ("self.last[n].append(x)", "GS703"),
        ("self.seen = self.seen + [x]", "GS402"),
        ("self.seen = [*self.seen, x]", "GS402"),
        ("self.seen = []\nself.seen = self.seen + [x]", None),
        ("seen = [*self.seen, x]", None),
    ],
)
def test_lists_that_steps_lengthen(tmp_path: Path, step: str, code: str | None) -> None:
    made = """
        self.rows, self.counts, self.seen = defaultdict(list), defaultdict(int), []
        self.last = defaultdict(lambda: collections.deque(maxlen=4))
    """
    source = "from collections import defaultdict\n" + module(f"n = x.shape[0]\n{step}\nreturn x * 2", made)
    assert found(tmp_path, source) == ([(code, step)] if code is not None else [])


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("self.h = self.h + x if self.training else self.h", True),
        ("self.h = self.h if x.shape[0] > 2 else self.h * 2", True),
        ("self.h = self.h.add_(x) if self.training else self.h", False),
        ("self.h = self.h if self.training else self.h", False),
        ("h = self.h + x if self.training else self.h", False),
    ],
)
def test_a_conditional_expression_that_may_keep_the_tensor(tmp_path: Path, line: str, is_found: bool) -> None:
    source = module(f"{line}\nreturn self.h * 2", "self.h = torch.zeros(8, device='cuda')")
    assert found(tmp_path, source) == ([("GS703", line)] if is_found else [])


RECORDS = """
@dataclasses.dataclass
class State:
    h: torch.Tensor
    n: int

class Pair(typing.NamedTuple):
    h: torch.Tensor
    n: int

"""


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("self.state = dataclasses.replace(self.state, h=self.state.h + x)", True),
        ("self.state = State(self.state.h + x, 1)", True),
        ("self.state = dataclasses.replace(self.state, h=self.state.h)", False),
        ("state = dataclasses.replace(self.state, h=self.state.h + x)", False),
        ("self.state = self.shown(h=self.state.h + x)", False),
        ("self.pair = self.pair._replace(h=self.pair.h + x)", True),
        ("self.pair = Pair(self.pair.h + x, 1)", True),
        ("self.table = {'h': self.table['h'] + x}", True),
        ("self.table.update({'h': self.table['h'] + x})", True),
        ("self.table = {'h': self.table['h'].add_(x)}", False),
        ("self._buffers['h'] = self.h + x", True),
        ("self.__dict__['p'] = self.p + x", True),
        ("vars(self)['p'] = self.p + x", True),
        ("object.__setattr__(self, 'p', self.p + x)", True),
        ("self.p = torch.ops.aten.add.Tensor(self.p, x)", True),
        ("torch.ops.aten.add_.Tensor(self.p, x)", False),
    ],
)
def test_parts_of_state_that_a_step_replaces(tmp_path: Path, line: str, is_found: bool) -> None:
    made = """
        self.net = nn.Linear(8, 8)
        self.register_buffer("h", torch.zeros(8))
        self.p = torch.zeros(8, device="cuda")
        self.table = {"h": torch.zeros(8, device="cuda")}
        self.state = State(torch.zeros(8, device="cuda"), 0)
        self.pair = Pair(torch.zeros(8, device="cuda"), 0)
    """
    step = f"{line}\nreturn self.net(x) + self.h + self.p + self.table['h'] + self.state.h + self.pair.h"
    source = "import dataclasses, typing\n" + RECORDS + module(step, made, "def shown(self, h):\n    return self.state")
    assert found(tmp_path, source) == ([("GS703", line)] if is_found else [])


def test_an_alias_of_an_attribute_is_no_swap(tmp_path: Path) -> None:
    made = "self.front = torch.zeros(2, device='cuda')\nself.back = torch.zeros(2, device='cuda')"
    assert found(tmp_path, module("self.current = self.front\nreturn x + self.current", made)) == []


@pytest.mark.parametrize(
    ("made", "expected"),
    [("self.total = 0.0", [("GS703", "self.total += x.sum()")]), ("self.add_state('total', torch.zeros(()))", [])],
    ids="number of-a-base".split(),
)
def test_a_running_total(tmp_path: Path, made: str, expected: list[tuple[str, str]]) -> None:
    """`+=` makes a tensor of a number, and adds in place to a tensor."""
    assert found(tmp_path, module("self.total += x.sum()\nreturn x", made)) == expected


def test_a_global_that_steps_blend(tmp_path: Path) -> None:
    source = """\
        _level = None

        class Follow(nn.Module):
            def forward(self, x: torch.Tensor):
                global _level
                _level = x.mean() if _level is None else torch.lerp(_level, x.mean(), 0.1)
                return x - _level
        """
    assert [code for code, _ in found(tmp_path, source)] == ["GS703"]


def test_the_state_of_an_optimizer(tmp_path: Path) -> None:
    source = """\
        class Momentum(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if not state:
                            state.update(count=0)
                        state["count"] += 1
                        held = state.get("velocity", torch.zeros_like(p))
                        state["velocity"] = held * 0.9 + p.grad
                        p.sub_(state["velocity"] / state["count"])

        class Warmup:
            def __init__(self, optimizer, rate):
                self.optimizer, self.rate, self.steps = optimizer, rate, 0
            def step(self):
                self.steps += 1
                for group in self.optimizer.param_groups:
                    group["lr"] = self.rate * self.steps
        """
    assert found(tmp_path, source) == [
        ("GS702", 'state["count"] += 1'),
        ("GS703", 'state["velocity"] = held * 0.9 + p.grad'),
        ("GS702", "self.steps += 1"),
    ]


@pytest.mark.parametrize("test", ["len(state) == 0", "not state", "'step' not in state"])
def test_a_counter_that_the_first_step_of_an_optimizer_makes(tmp_path: Path, test: str) -> None:
    source = f"""\
        class Adam(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if {test}:
                            state["step"] = 0
                            state["scale"] = 2.0
                        state["step"] += 1
                        p.sub_(p.grad * state["scale"], alpha=1 / state["step"])
        """
    assert found(tmp_path, source) == [("GS702", 'state["step"] += 1')]


COUNTED = """\
class Agent:
    def __init__(self, actor):
        self.actor = actor
        self.updates = 0
        self.graph = torch.cuda.CUDAGraph()

    def update(self, x):
        self.updates += 1
        return self.actor(x)

    def capture(self, x, stream):
        self.x = x.clone()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.update(self.x)

    def act(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()

"""


def test_a_number_that_captured_code_counts_for_the_code_around(tmp_path: Path) -> None:
    around = "def report(agent, log):\n    log.write(agent.updates)\n"
    assert found(tmp_path, COUNTED + around) == [("GS702", "self.updates += 1")]


@pytest.mark.parametrize(
    "around",
    ["", "def drive(agent, x):\n    agent.act(x)\n    agent.updates += 1\n    return agent.updates\n"],
    ids=["nobody reads it", "the code around counts itself"],
)
def test_a_number_that_captured_code_counts_for_nobody(tmp_path: Path, around: str) -> None:
    assert found(tmp_path, COUNTED + around) == []


@pytest.mark.parametrize(
    ("made", "draw"),
    [
        ("self.rng = np.random.default_rng(3)", "self.rng.normal()"),
        ("self.rng = random.Random(3)", "self.rng.random()"),
        ("self.rng = np.random.RandomState(3)", "self.rng.rand()"),
    ],
)
def test_generators_of_the_host_in_attributes(tmp_path: Path, made: str, draw: str) -> None:
    assert [code for code, _ in found(tmp_path, module(f"return x * {draw}", made))] == ["GS504"]


PLAN = """\
from dataclasses import dataclass, field

@dataclass
class Plan:
    pages: int = 0
    rows: list = field(default_factory=list)

def add(plan: Plan, count: int):
    plan.rows.append(plan.pages)
    plan.pages += count
    return plan

class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.plan = None
        self.plans = {}

    @functools.cached_property
    def own(self):
        return Plan()

    def forward(self, x: torch.Tensor):
        plan = add(PLAN, x.shape[0])
        return x[: plan.pages] * len(plan.rows)
"""


@pytest.mark.parametrize(("made", "expected"), [("Plan()", []), ("self.own", ["plan.pages += count"])])
def test_what_a_step_makes_is_no_state_wherever_it_is_changed(tmp_path: Path, made: str, expected: list[str]) -> None:
    assert [line for _, line in found(tmp_path, PLAN.replace("PLAN", made))] == expected


def test_what_a_first_step_makes_is_state(tmp_path: Path) -> None:
    lazy = "if self.plan is None:\n            self.plan = Plan()\n        plan = add(self.plan, x.shape[0])"
    source = PLAN.replace("plan = add(PLAN, x.shape[0])", lazy)
    assert ("GS702", "plan.pages += count") in found(tmp_path, source)


@pytest.mark.parametrize(
    ("writes", "test", "code"),
    [
        ("self.register_buffer('cos', freqs.cos(), persistent=False)", "if length > self.cached:", "GS402"),
        ("self.cos = freqs.cos()", "if length > self.cached:", "GS402"),
        ("self.cos = freqs.cos()", "if self.cos.shape[0] < length:", "GS402"),
        ("self.register_buffer('cos', freqs.cos())", "if self.training:", "GS703"),
        ("self.register_buffer('cos', freqs.cos())", "if True:", None),
        ("self.register_buffer('cos', freqs.cos())", "if False:", None),
    ],
)
def test_a_table_that_a_helper_makes_larger(tmp_path: Path, writes: str, test: str, code: str | None) -> None:
    made = "self.frequencies = nn.Parameter(torch.rand(4))\nself.set_table(16)"
    step = f"length = x.shape[0]\n{test}\n    self.set_table(length)\nreturn x * self.cos[:length]"
    more = f"""\
        def set_table(self, length):
            self.cached = length
            freqs = torch.outer(torch.arange(length, device=self.frequencies.device), self.frequencies)
            {writes}
        """
    assert found(tmp_path, module(step, made, more)) == ([(code, writes)] if code else [])


GROWN = """\
    class Angles(nn.Module):
        def __init__(self, {length}, rate):
            super().__init__()
            self.rate = nn.Parameter(torch.ones(rate))
            self.fill({length})

        def fill(self, length: int):
            self.cached = length
            self.register_buffer("table", torch.outer(torch.arange(length, device="cuda"), self.rate).cos())

        def forward(self, x: torch.Tensor):
            if x.shape[1] > self.cached:
                self.fill(x.shape[1])
            return x * self.table[: x.shape[1]]
    """
INLINE = """\
    class Angles(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.rate = nn.Parameter(torch.ones(8))
            self.max_length = config.max_positions
            self.cached = {begin}

        def forward(self, x: torch.Tensor, positions: torch.Tensor):
            longest = positions.max() + 1
            if longest > self.cached:
                self.table = torch.outer(positions, self.rate)
                self.cached = longest
            return x * self.table
    """


@pytest.mark.parametrize(
    ("source", "grows"),
    [
        (GROWN.format(length="max_positions"), False),
        (GROWN.format(length="rows"), True),
        (INLINE.format(begin="config.max_positions"), False),
        (INLINE.format(begin="0"), True),
    ],
)
def test_a_table_for_a_stated_maximum_seldom_grows(tmp_path: Path, source: str, grows: bool) -> None:
    codes = [code for code, _ in found(tmp_path, source)]
    # A number is no buffer, whatever the test around it asks for.
    assert codes.count("GS402") == grows


def test_a_list_of_an_object_that_the_step_makes_is_no_state(tmp_path: Path) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class Rows:
            values: list[torch.Tensor]
            masks: list[list[int]] | None = None

        class Making(nn.Module):
            def forward(self, x: torch.Tensor):
                rows = Rows([], [])
                for i in range(3):
                    rows.masks.append([1] * i)
                return x * torch.tensor(rows.masks[0], device="cpu").sum()

        class Keeping(nn.Module):
            def __init__(self, kept: Rows):
                super().__init__()
                self.kept = kept

            def forward(self, x: torch.Tensor):
                kept = self.kept
                for i in range(3):
                    kept.masks.append([2] * i)
                return x * torch.tensor(kept.masks[0], device="cpu").sum()
        """
    assert found(tmp_path, source) == [("GS702", "kept.masks.append([2] * i)")]


def test_what_a_step_puts_back_before_it_ends_is_no_state(tmp_path: Path) -> None:
    step = """\
        old = self.scale
        try:
            self.scale = self.scale + 1
            return x * self.scale
        finally:
            self.scale = old
        """
    assert found(tmp_path, module(textwrap.dedent(step), "self.scale = 4")) == []
    left = textwrap.dedent(step).replace("self.scale = old", "old = None")
    assert found(tmp_path, module(left, "self.scale = 4")) == [("GS702", "self.scale = self.scale + 1")]


def test_a_number_computed_from_several_attributes_changes_with_each_of_them(tmp_path: Path) -> None:
    source = """\
        class Clock:
            def __init__(self, dt):
                self.dt, self.t = dt, 0.0
            def tick(self):
                self.t += self.dt

        class Wave(nn.Module):
            def __init__(self, clock: Clock):
                super().__init__()
                self.clock, self.rate, self.shift = clock, 0.5, 1

            def amplitude(self):
                return np.sin(self.rate * self.clock.t) if self.shift else self.rate + self.shift

            def forward(self, x: torch.Tensor):
                x = x * (self.rate * self.clock.t)
                self.clock.tick()
                return x * (self.rate * self.shift)
        """
    assert found(tmp_path, source) == [("GS702", "self.t += self.dt")]


@pytest.mark.parametrize(("where", "expected"), [("build", ["GS504"]), ("main", ["GS504"]), ("draw", [])])
def test_what_is_seeded_once_draws_other_numbers_in_each_step(tmp_path: Path, where: str, expected: list[str]) -> None:
    draw = "np.random.seed(3)\n            " if where == "draw" else ""
    source = f"""\
        def {where if where != "draw" else "prepare"}(device):
            {"pass" if draw else "np.random.seed(0)"}

        def draw(x):
            {draw}return x * np.random.rand()

        class Step(nn.Module):
            def forward(self, x: torch.Tensor):
                return draw(x)
        """
    assert [code for code, _ in found(tmp_path, source)] == expected


def test_a_running_maximum_compares_tensors_from_the_second_step_on(tmp_path: Path) -> None:
    source = module("self.worst = max(self.worst, x.abs().amax())\nreturn x", "self.worst = 0.0")
    assert ("GS102", "self.worst = max(self.worst, x.abs().amax())") in found(tmp_path, source)


@pytest.mark.parametrize(("returns", "codes"), [("np.ndarray", []), ("torch.Tensor", ["GS504"])])
def test_what_a_function_for_arrays_draws_may_stay_on_the_host(tmp_path: Path, returns: str, codes: list[str]) -> None:
    source = f"""\
        import numpy as np
        import torch
        from torch import nn

        class Policy(nn.Module):
            def forward(self, x: torch.Tensor):
                return x, self.explored()

            def explored(self) -> {returns}:
                return np.random.normal(self.mean, self.std)
        """
    (tmp_path / "policy.py").write_text(textwrap.dedent(source))
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [one.code for one in findings if one.level != "note"] == codes


@pytest.mark.parametrize(
    ("made", "step", "is_found"),
    [
        ("{'m': torch.zeros(4, device='cuda')}", "self.slots.update(m=self.slots['m'] * 0.9 + x)", True),
        ("{'m': torch.zeros(4, device='cuda')}", "self.slots.copy().update(m=self.slots['m'] * 0.9 + x)", False),
        ("{}", "self.slots.update(m=x.exp(), rows=x.shape[0])", False),
    ],
    ids="kept of-a-copy set-anew".split(),
)
def test_entries_that_update_replaces(tmp_path: Path, made: str, step: str, is_found: bool) -> None:
    source = module(f"{step}\nreturn self.slots['m']", f"self.slots = {made}")
    assert found(tmp_path, source) == ([("GS703", step)] if is_found else [])


@pytest.mark.parametrize(("used", "codes"), [("1", []), ("group['step']", ["GS702"])])
def test_a_count_of_steps_that_nothing_reads(scan: Scan, used: str, codes: list[str]) -> None:
    source = f"""\
        class Own(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    group["step"] += 1
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"] / {used})
        """
    assert [code for code, line in scan(source) if "step" in line] == codes


def test_each_class_of_optimizers_has_groups_of_its_own(tmp_path: Path) -> None:
    source = """\
        class Corrected(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    group["step"] += 1  # read
                    for p in group["params"]:
                        p.add_(p.grad, alpha=1 - 0.9 ** group["step"])

        class Plain(torch.optim.Optimizer):
            def step(self, closure=None):
                for group in self.param_groups:
                    if group["step"] == 0:
                        group["scale"] = 0.1
                    group["step"] += 1
                    for p in group["params"]:
                        p.add_(p.grad, alpha=group["scale"])
        """
    assert found(tmp_path, source) == [("GS702", 'group["step"] += 1  # read')]


@pytest.mark.parametrize(
    "correction",
    [
        "math.pow(0.9, count)",
        "self.corrected(group['beta'], count)",
        "sum(group[name] for name in ('a', 'b', 'c', 'd', 'e')) + count",
    ],
    ids="math annotated many-sources".split(),
)
def test_a_count_that_a_correction_is_computed_from(tmp_path: Path, correction: str) -> None:
    source = f"""\
        class Own(torch.optim.Optimizer):
            @staticmethod
            def corrected(beta: float, step: int) -> float:
                return 1.0 - math.pow(beta, step)

            def step(self, closure=None):
                for group in self.param_groups:
                    group["count"] += 1
                    count: int = group["count"]
                    correction: float = {correction}
                    for p in group["params"]:
                        p.add_(p.grad, alpha=correction)
        """
    assert found(tmp_path, source) == [("GS702", 'group["count"] += 1')]

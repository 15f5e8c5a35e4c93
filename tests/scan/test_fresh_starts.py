"""State that each step sets anew before it uses it is no state between steps, wherever the step sets it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths


def found(tmp_path: Path, source: str) -> list[tuple[str, str]]:
    """Code and line of each finding above note, allocations aside."""
    text = "import torch\nfrom torch import nn\n\n" + textwrap.dedent(source)
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [
        (f.code, lines[f.location.line - 1].strip())
        for f in scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
        if f.level != "note" and f.code != "GS401"
    ]


COUNTER = """
class Dial:
    def __init__(self):
        self.turns = 0
        self.mark = None

    def home(self):
        {home}

    def turn(self, y):
        self.turns += 1
        self.mark = y if self.mark is None else self.mark * y
        return y * self.turns


class Plate(nn.Module):
    def __init__(self, dial):
        super().__init__()
        self.dial = dial
        self.up = nn.Linear(4, 4)

    def forward(self, x):
        return self.dial.turn(self.up(x))


class Press(nn.Module):
    def __init__(self):
        super().__init__()
        self.dial = Dial()
        self.plates = nn.ModuleList(Plate(self.dial) for _ in range(3))

    def forward(self, x, again=False):
        {top}
        for plate in self.plates:
            x = plate(x)
        return x
"""

HOME = "self.turns, self.mark = 0, None"
CARRIED = [
    ("GS702", "self.turns += 1"),
    ("GS703", "self.mark = y if self.mark is None else self.mark * y"),
]


@pytest.mark.parametrize(
    ("home", "top", "expected"),
    [
        (HOME, "self.dial.home()", []),
        ("try:\n            self.turns = 0\n        finally:\n            self.mark = None", "self.dial.home()", []),
        (HOME, "with torch.no_grad():\n            self.dial.home()", []),
        (HOME, "pass", CARRIED),
        ("self.mark = None", "self.dial.home()", CARRIED[:1]),
        (HOME, "if again:\n            self.dial.home()", CARRIED),
        (HOME, "_ = again and self.dial.home()", CARRIED),
        ("if self.turns > 9:\n            self.turns, self.mark = 0, None", "self.dial.home()", CARRIED),
        (f"if len(self.__dict__) > 2:\n            return\n        {HOME}", "self.dial.home()", CARRIED),
        (HOME, "x = x * self.dial.turns\n        self.dial.home()", CARRIED[:1]),
        (HOME, "reset = lambda: self.dial.home()\n        if again:\n            reset()", CARRIED),
        (HOME, "def reset():\n            self.dial.home()\n        if again:\n            reset()", CARRIED),
        (HOME, "for _ in range(int(again)):\n            self.dial.home()", CARRIED),
    ],
)
def test_a_reset_at_the_top_of_a_step(tmp_path: Path, home: str, top: str, expected: list[tuple[str, str]]) -> None:
    assert found(tmp_path, COUNTER.format(home=home, top=top)) == expected


STEP = """
class Sweep:
    def __init__(self, w):
        self.w = w
        self.level = 0
        self.last = None
        self.state = None

    def _down(self):
        self.level += 1
        self.state = self.state @ self.w * self.level

    def run(self, x):
        {top}
        for _ in range(2):
            self._down()
        {end}
        return self.state


def build(device):
    return Sweep(torch.eye(4, device=device)).run, (torch.randn(2, 4, device=device),)
"""


@pytest.mark.parametrize(
    ("top", "end", "expected"),
    [
        ("self.level, self.state = 0, x", "pass", []),
        ("self.level = 0\n        self.state = x * 2", "self.level = 0", []),
        ("self.state = x", "pass", ["self.level += 1"]),
        (
            "self.level = 0\n        self.state = x if self.last is None else self.last",
            "self.last = self.state",
            ["self.state = self.state @ self.w * self.level"],
        ),
    ],
)
def test_a_reset_in_the_caller(tmp_path: Path, top: str, end: str, expected: list[str]) -> None:
    assert [line for _, line in found(tmp_path, STEP.format(top=top, end=end))] == expected


def test_a_reset_before_the_capture_is_not_part_of_a_replay(tmp_path: Path) -> None:
    source = """
    class Runner:
        def __init__(self, w):
            self.w = w
            self.tick = 0
            self.x = torch.zeros(4, device="cuda")
            self.graph = None

        def advance(self):
            self.tick += 1
            return self.x * self.tick @ self.w

        def capture(self):
            self.tick = 0
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.advance()

        def replay(self, x):
            self.x.copy_(x)
            self.graph.replay()
            return self.y.clone()
    """
    assert ("GS702", "self.tick += 1") in found(tmp_path, source)


def test_a_reset_around_a_loop_of_steps_is_not_part_of_a_step(tmp_path: Path) -> None:
    source = """
    class Cache:
        def __init__(self):
            self.seen = 0

        def empty(self):
            self.seen = 0

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = Cache()
            self.up = nn.Linear(4, 4)

        def forward(self, x):
            self.cache.seen += 1
            return self.up(x) * self.cache.seen

    @torch.no_grad()
    def generate(model: Speaker, x: torch.Tensor, count: int):
        model.cache.empty()
        for _ in range(count):
            x = model(x)
        return x
    """
    assert found(tmp_path, source) == [("GS702", "self.cache.seen += 1")]


@pytest.mark.parametrize(
    ("reset", "levels"),
    [
        # a step reads only what it has set itself
        ("self.sum = torch.zeros_like(self.sum)", []),
        ("self.sum = self.sum.new_zeros(self.sum.shape)", []),
        ("self.sum = torch.zeros_like(self.sum) + self.sum * 0.9", [("error", 1), ("error", 2)]),
        ("before = self.sum\n        self.sum = torch.zeros_like(self.sum) + before", [("error", 2), ("error", 3)]),
    ],
)
def test_a_reset_that_asks_for_the_form(tmp_path: Path, reset: str, levels: list[tuple[str, int]]) -> None:
    source = f"""import torch

class Loss:
    def __init__(self, device):
        self.sum = torch.zeros(4, device=device)
    def run(self, x):
        {reset}
        self.sum = self.sum + x
        return self.sum.exp()

def build(device):
    return Loss(device).run, (torch.randn(4, device=device),)
"""
    (tmp_path / "step.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
    assert [(f.level, f.location.line - 6) for f in findings if f.code == "GS703"] == levels


KEPT = """
class Solve:
    def __init__(self, device):
        self.scale = torch.ones(4, device=device)

    def _prepare(self, x):
        self.scale = x.abs() + 1

    def run(self, x):
        {body}

def build(device):
    return Solve(device).run, (torch.randn(4, device=device),)
"""
REBOUND = [("GS703", "self.scale = x.abs() + 1")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self._prepare(x)\n        return x / self.scale", []),
        ("y = x / self.scale\n        self._prepare(x)\n        return y", REBOUND),
        ("if x.ndim > 1:\n            self._prepare(x)\n        return x / self.scale", REBOUND),
        ("self._prepare(x)\n        return x", REBOUND),
    ],
)
def test_a_tensor_that_each_step_sets_before_it_reads_it(
    tmp_path: Path, body: str, expected: list[tuple[str, str]]
) -> None:
    assert found(tmp_path, KEPT.format(body=body)) == expected


BRANCHES = """
class Solve:
    def __init__(self, device):
        self.scale = torch.ones(4, device=device)

    def run(self, x):
        {before}
        if x.sum() > 1:
            {inside}
        else:
            {other}
        return {after}

def build(device):
    return Solve(device).run, (torch.randn(4, device=device),)
"""
SETS, READS, ADDS = "self.scale = x.abs()", "x = x / self.scale", "self.scale = self.scale + 1"


@pytest.mark.parametrize(
    ("before", "inside", "other", "after", "expected"),
    [
        ("pass", [SETS, READS], ["pass"], "x", []),
        ("pass", [SETS, ADDS, READS], ["pass"], "x", []),
        ("pass", [SETS], [SETS], "x / self.scale", []),
        ("kept = self.scale + 1", [SETS, READS, "self.scale = kept"], ["pass"], "x", [SETS, "self.scale = kept"]),
        ("pass", [SETS, READS], ["pass"], "x / self.scale", [SETS]),
        ("pass", [READS, SETS], ["pass"], "x", [SETS]),
        ("pass", [ADDS, READS], ["pass"], "x", [ADDS]),
        (READS, [SETS, READS], ["pass"], "x", [SETS]),
        ("pass", [SETS], [READS], "x", [SETS]),
        ("pass", [f"for i in range(3): {READS}; {SETS}"], ["pass"], "x", [f"for i in range(3): {READS}; {SETS}"]),
    ],
)
def test_a_branch_that_sets_a_tensor_before_it_reads_it(
    tmp_path: Path, before: str, inside: list[str], other: list[str], after: str, expected: list[str]
) -> None:
    """The attribute passes the tensor only to later lines of the same branch."""
    indent = "\n            "
    source = BRANCHES.format(before=before, inside=indent.join(inside), other=indent.join(other), after=after)
    assert [line for code, line in found(tmp_path, source) if code == "GS703"] == expected


BEGUN = """
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)
        self.h = torch.zeros(1, 4)

    def begin(self, x, keep=False):
        if not keep:
            self.h = torch.zeros_like(x)

    def forward(self, x):
        {begin}
        for _ in range(3):
            self.h = self.cell(self.h + x)
        return self.h
"""


@pytest.mark.parametrize(
    ("begin", "expected"),
    [
        ("self.begin(x)", 0),
        ("self.begin(x, keep=True)", 1),
        ("self.begin(x, keep=x.sum())", 2),
        ("if x.ndim > 2: self.begin(x)", 2),
    ],
)
def test_a_reset_in_a_branch_that_the_call_always_takes(tmp_path: Path, begin: str, expected: int) -> None:
    assert [code for code, _ in found(tmp_path, BEGUN.format(begin=begin))].count("GS703") == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("self.scale.to(x.dtype) if self.scale is not None else None", []),
        ("self.scale.to(x.dtype) + 1 if self.scale is not None else None", ["GS703"]),
    ],
)
def test_a_tensor_that_is_converted_if_it_is_there(tmp_path: Path, written: str, expected: list[str]) -> None:
    body = f"self.scale = {written}\n        return x / self.scale"
    assert [code for code, _ in found(tmp_path, KEPT.format(body=body))] == expected


CLOSURES = """
class Gauge:
    def __init__(self):
        self.count = 0

def build(device):
    gauge = Gauge()

    def first(x):
        gauge.count = 0
        gauge.count += 1
        return x * gauge.count

    def second(x):
        gauge.count += 1
        return x / gauge.count

    return {made}, (torch.randn(4, device=device),)
"""


def test_each_step_of_a_factory_is_followed_alone(tmp_path: Path) -> None:
    assert found(tmp_path, CLOSURES.format(made="first")) == []
    lines = CLOSURES.format(made="first if device.index else second")
    assert found(tmp_path, lines) == [("GS702", "gauge.count += 1")]
    (place,) = {f.location.line for f in scan_paths([tmp_path], Config(root=tmp_path)).findings if f.code == "GS702"}
    assert "/ gauge.count" in (tmp_path / "step.py").read_text(encoding="utf-8").splitlines()[place]

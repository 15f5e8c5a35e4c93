"""State that a step writes in place and binds to its name again, and code that looks alike but binds another tensor."""

from __future__ import annotations

import re

import pytest

from .conftest import Scan

PROGRAMS = {
    "an optimizer's moments": """
        class Momentum:
            def __init__(self, weights):
                self.weights = list(weights)
                self.slots = {i: {"v": torch.zeros_like(w), "n": torch.zeros_like(w)} for i, w in enumerate(weights)}

            def step(self, grads):
                for i, (w, g) in enumerate(zip(self.weights, grads)):
                    slot = self.slots[i]
                    slot["v"] = slot["v"].mul_(0.9).add_(g)
                    v, n = slot["v"], slot["n"]
                    n.addcmul_(g, g)
                    slot["n"] = n
                    w.addcdiv_(v, n.sqrt() + 1e-6, value=-0.1)

        def build(device):
            return Momentum([torch.rand(4, device=device)]).step, ([torch.rand(4, device=device)],)
        """,
    "moments computed anew": """
        class Momentum:
            def __init__(self, weights):
                self.weights = list(weights)
                self.slots = {i: {"v": torch.zeros_like(w), "n": torch.zeros_like(w)} for i, w in enumerate(weights)}

            def step(self, grads):
                for i, (w, g) in enumerate(zip(self.weights, grads)):
                    slot = self.slots[i]
                    slot["v"] = slot["v"].mul(0.9).add_(g)  # expect: GS703
                    v, n = slot["v"], slot["n"]
                    n = n + g * g
                    slot["n"] = n  # expect: GS703
                    w.addcdiv_(v, n.sqrt() + 1e-6, value=-0.1)

        def build(device):
            return Momentum([torch.rand(4, device=device)]).step, ([torch.rand(4, device=device)],)
        """,
    "entries of a dict and a list": """
        class Track(nn.Module):
            def __init__(self, n, device):
                super().__init__()
                self.sums = {"x": torch.zeros(n, device=device), "y": torch.zeros(n, device=device)}
                self.last = [torch.zeros(n, device=device)]

            def forward(self, x):
                seen = self.sums["x"]
                seen += x
                self.sums["x"] = seen
                a, b = self.sums["x"], self.sums["y"]
                self.sums["x"], self.sums["y"] = a, b.copy_(a)
                self.last[0] = torch.mul(self.last[0], 0.5, out=self.last[0])
                return x - self.sums["y"] + self.last[0]
        """,
    "entries that change places, or that only some steps write in place": """
        class Track(nn.Module):
            def __init__(self, n, device):
                super().__init__()
                self.sums = {name: torch.zeros(n, device=device) for name in ("x", "y")}
                self.kept = {"h": torch.zeros(n, device=device), "g": torch.zeros(n, device=device)}
                self.cell = nn.GRUCell(n, n)

            def forward(self, x, anew):
                y = x + self.sums["x"] - self.sums["y"]
                self.sums["x"], self.sums["y"] = self.sums["y"], self.sums["x"]  # expect: GS703
                h = self.cell(x, self.kept["h"])
                if anew:
                    h = self.kept["h"].zero_()
                self.kept["h"] = h  # expect: GS703
                g = self.kept["g"]
                for part in (x, y):
                    self.kept["g"] = g  # expect: GS703
                    g = self.cell(part, g)
                return y + h + g
        """,
    "both states of a cell, unpacked": """
        class Cell(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.cell = nn.LSTMCell(n, n)
                self.register_buffer("h", torch.zeros(1, n))
                self.register_buffer("c", torch.zeros(1, n))

            def forward(self, x):
                h = self.h
                c = self.c
                h, c = self.cell(x, (h, c))
                self.h = h  # expect: GS703
                self.c = c  # expect: GS703
                return h
        """,
    "out= names the attribute itself": """
        class Mean(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.register_buffer("mean", torch.zeros(n))
                self.register_buffer("total", torch.zeros(n))

            def forward(self, x):
                self.mean = torch.lerp(self.mean, x, 0.1, out=self.mean)
                moved = self.mean.mul_(0.9)
                self.mean = moved
                total = torch.add(self.total, x, out=self.total)
                self.total = total
                return x - self.mean + self.total
        """,
    "a part of an entry, and the entry of each turn": """
        class Rows(nn.Module):
            def __init__(self, n, device):
                super().__init__()
                self.rows = [torch.zeros(n, device=device), torch.zeros(n, device=device)]
                self.first, self.now, self.turn = self.rows[0][:2], self.rows[0], 0

            def forward(self, x):
                self.rows[0].mul_(0.5)
                self.first = self.rows[0][:2]
                self.now = self.rows[self.turn]  # expect: GS703
                return x + self.first.sum() + self.now
        """,
    "two sweeps": """
        class Sweeps:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def sweep(self, b):
                self.new.copy_(self.old * 0.5 + b)
                self.old, self.new = self.new, self.old
                return self.old

            def solve(self, b):
                self.sweep(b)
                y = self.sweep(b)
                return self.old.clone()

        def build(device):
            return Sweeps(4, device).solve, (torch.rand(4, device=device),)
        """,
    "three sweeps": """
        class Sweeps:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def sweep(self, b):
                self.new.copy_(self.old * 0.5 + b)
                self.old, self.new = self.new, self.old  # expect: GS703
                return self.old

            def solve(self, b):
                self.sweep(b)
                self.sweep(b)
                self.sweep(b)
                return self.old.clone()

        def build(device):
            return Sweeps(4, device).solve, (torch.rand(4, device=device),)
        """,
    "an even number of sweeps in a loop": """
        class Sweeps:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def sweep(self, b):
                self.new.copy_(self.old * 0.5 + b)
                self.old, self.new = self.new, self.old
                return self.old

            def solve(self, b):
                for _ in range(6):
                    self.sweep(b)
                return self.old.clone()

        def build(device):
            return Sweeps(4, device).solve, (torch.rand(4, device=device),)
        """,
    "sweeps until the result is good": """
        class Sweeps:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def sweep(self, b):
                self.new.copy_(self.old * 0.5 + b)
                self.old, self.new = self.new, self.old  # expect: GS703
                return self.old

            def solve(self, b):
                for _ in range(6):
                    self.sweep(b)
                    if len(b) < 3:
                        break
                return self.old.clone()

        def build(device):
            return Sweeps(4, device).solve, (torch.rand(4, device=device),)
        """,
    "sweeps that one branch continues": """
        class Sweeps:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def sweep(self, b):
                self.new.copy_(self.old * 0.5 + b)
                self.old, self.new = self.new, self.old  # expect: GS703
                return self.old

            def solve(self, b):
                self.sweep(b)
                if len(b) > 3:
                    self.sweep(b)
                return self.old.clone()

        def build(device):
            return Sweeps(4, device).solve, (torch.rand(4, device=device),)
        """,
    "one sweep in each of two objects": """
        class Pair:
            def __init__(self, n, device):
                self.old, self.new = torch.zeros(n, device=device), torch.zeros(n, device=device)

            def turn(self, x):
                self.new.copy_(self.old * 0.5 + x)
                self.old, self.new = self.new, self.old  # expect: GS703

        class Fluid:
            def __init__(self, u, v):
                self.u, self.v = u, v

            def advance(self, x):
                self.u.turn(x)
                self.v.turn(x)
                return self.u.old + self.v.old

        def build(device):
            return Fluid(Pair(4, device), Pair(4, device)).advance, (torch.rand(4, device=device),)
        """,
    "a side that is flipped twice, and one that is flipped once": """
        class Lanes:
            def __init__(self, n, device):
                self.lanes = [torch.zeros(n, device=device), torch.zeros(n, device=device)]
                self.side, self.other = 0, 0

            def turn(self, x):
                self.lanes[self.side].add_(x)
                self.side ^= 1

            def turn_other(self, x):
                self.lanes[self.other].add_(x)
                self.other = 1 - self.other  # expect: GS702

            def advance(self, x):
                self.turn(x)
                self.turn(x * 2)
                self.turn_other(x)
                return self.lanes[0] + self.lanes[1]

        def build(device):
            return Lanes(4, device).advance, (torch.rand(4, device=device),)
        """,
    "swaps in a loop": """
        class Relax(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.register_buffer("a", torch.zeros(n))
                self.register_buffer("b", torch.zeros(n))
                self.register_buffer("c", torch.zeros(n))
                self.register_buffer("d", torch.zeros(n))

            def forward(self, x):
                for _ in range(8):
                    self.b.copy_(self.a * 0.5 + x)
                    self.a, self.b = self.b, self.a
                for _ in range(7):
                    self.d.copy_(self.c * 0.5 + x)
                    self.c, self.d = self.d, self.c  # expect: GS703
                return self.a + self.c
        """,
    "out= names another tensor": """
        class Mean(nn.Module):
            def __init__(self, n):
                super().__init__()
                self.register_buffer("mean", torch.zeros(n))

            def forward(self, x):
                fresh = torch.empty_like(x)
                self.mean = torch.lerp(self.mean, x, 0.1, out=fresh)  # expect: GS703
                return x - self.mean
        """,
    "a value computed from an input, and filled with out= before each replay": """
        class Engine:
            def __init__(self, model, n):
                self.model = model
                self.lengths = torch.ones(n, device="cuda")
                self.scale = self.lengths.rsqrt()
                self.half = self.lengths * 0.5  # expect: GS705
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    self.model(self.lengths, self.scale, self.half)
                torch.cuda.current_stream().wait_stream(side)
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=side):
                    self.out = self.model(self.lengths, self.scale, self.half)

            def run(self, lengths):
                self.lengths.copy_(lengths)
                torch.rsqrt(self.lengths, out=self.scale)
                self.graph.replay()
                return self.out.clone()
        """,
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_only_another_tensor_is_a_rebinding(scan: Scan, program: str) -> None:
    source = PROGRAMS[program]
    wanted = [(code, line.strip()) for line in source.splitlines() for code in re.findall(r"# expect: (.*)", line)]
    assert sorted(scan(source)) == sorted(wanted)


ADVANCED = """\
class Solver(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("guess", torch.zeros(8))
        self.register_buffer("other", torch.zeros(8))

    def forward(self, right: torch.Tensor):
        x = self.guess
        for _ in range(3):
            {line}
        self.guess{end}
        return x * 2
"""


@pytest.mark.parametrize(
    ("line", "end", "found"),
    [
        ("x = x + 0.5 * (right - x)", " = x", True),
        ("x = x + 0.5 * (right - x)", ".copy_(x)", False),
        ("x += 0.5 * (right - x)", " = x", False),
        ("x = x.add_(right)", " = x", False),
        ("x = x.view(8)", " = x", False),
        ("pass", " = x", False),
    ],
)
def test_a_loop_computes_a_new_value_from_the_old_one(scan: Scan, line: str, end: str, found: bool) -> None:
    source = ADVANCED.format(line=line, end=end)
    assert scan(source) == [("GS703", f"self.guess{end}")] * found

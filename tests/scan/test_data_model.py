"""Methods of user classes that Python itself calls: operators, comparisons, keys, formatting, context managers."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

SOURCE = """
    import bisect
    import functools
    import heapq
    import itertools
    import operator
    import torch

    class Limit:
        def __get__(self, owner, cls=None):
            return owner.t.item()  # get

        def __set__(self, owner, v):
            owner.t = v + v.item()  # set

    class Size:
        def __init__(self, t):
            self.t = t

        METHOD

    class Step:
        def __init__(self):
            self.names = list("abc")
            self.seen = {}

        def run(self, x: torch.Tensor):
            size = Size(x.sum())
            other = Size(x.max())
            USE
            return x

    def build(device):
        return Step().run, (torch.randn(4, device=device),)
"""
WAITS = [
    ("def __lt__(self, other): return bool(self.t < other.t)  # wait", "if size < other: x = x + 1"),
    ("def __lt__(self, other): return bool(self.t < other.t)  # wait", "if other > size: x = x + 1"),
    ("def __lt__(self, other): return bool(self.t < other.t)  # wait", "x = x + max(size, other).t"),
    ("def __lt__(self, other): return bool(self.t < other.t)  # wait", "x = sorted([size, other])[0].t"),
    ("def __lt__(self, other): return bool(self.t < other.t)  # wait", "heapq.heappush([other], size)"),
    ("def __eq__(self, other): return torch.equal(self.t, other.t)  # wait", "if size != other: x = x + 1"),
    ("def __contains__(self, v): return (self.t == v).any().item()  # wait", "if 3 in size: x = x + 1"),
    ("def __add__(self, other): return self.t.item() + other  # wait", "x = x + (size + 1)"),
    ("def __radd__(self, other): return self.t.item() + other  # wait", "x = x + (1 + size)"),
    ("def __iadd__(self, other): self.t.item(); return self  # wait", "size += 1"),
    ("def __index__(self): return int(self.t)  # wait", "name = self.names[size]"),
    ("def __hash__(self): return hash(self.t.item())  # wait", "x = x + {size: 1.0}[size]"),
    ("def __str__(self): return f'{self.t:.2f}'  # wait", "print(size)"),
    ("def __repr__(self): return f'{self.t:.2f}'  # wait", "text = f'{size!r}'"),
    ("def __setitem__(self, key, v): self.t[: v.item()] = 0  # wait", "size[2] = x.max()"),
    ("def __setitem__(self, key, v): self.t[: v.item()] = 0  # wait", "size[:2] = x.max()"),
    ("def __getitem__(self, key): return self.t.item()  # wait", "kept = size[:2]"),
    ("def __delitem__(self, key): self.t.item()  # wait", "del size[2]"),
    ("def __neg__(self): return self.t.item()  # wait", "x = x + -size"),
    ("def __invert__(self): return self.t.item()  # wait", "x = x + ~size"),
    ("def __abs__(self): return self.t.item()  # wait", "x = x + abs(size)"),
    ("def __round__(self): return self.t.item()  # wait", "x = x + round(size)"),
    ("def __getattr__(self, name): return self.t.item()  # wait", "x = x + size.total"),
    ("def __getattr__(self, name): return lambda: self.t.item()  # wait", "x = x + size.total()"),
    ("limit = Limit()  # GET", "x = x + size.limit"),
    ("limit = Limit()  # SET", "size.limit = x.max()"),
    ("def __next__(self): return self.t.item()  # wait", "x = x + next(size)"),
    ("def __exit__(self, *given): torch.cuda.synchronize()  # wait", "with size: x = x + 1"),
]
DIRECT = [
    "torch._assert(x.sum() > 0, 'negative')",
    "at = bisect.bisect([0.5, 1.5], x.max())",
    "kept = list(filter(lambda v: v > 0, [x.sum()]))",
    "kept = list(filter(None, [x.sum()]))",
    "kept = list(itertools.takewhile(lambda v: v > 0, [x.sum()]))",
    "best = functools.reduce(max, [x.sum(), x.max()])",
    "order = sorted(range(4), key=x.__getitem__)",
    "kept = operator.itemgetter(x.argmax())([1.0, 2.0])",
    "kept = operator.getitem([1.0, 2.0], x.argmax())",
    "kept = operator.methodcaller('item')(x.sum())",
    "read = x.sum().item; kept = read()",
    "kept = getattr(x, 'tolist')()",
    "kept = list(map(x.sum().add, [1.0]))[0].item()",
    "kept = (x.cpu if x.dim() else x.numpy)()",
    "kept = x.sum().__float__()",
    "kept = x.sum().__bool__()",
    "kept = [1.0, 2.0][: x.argmax()]",
]


def marks(folder: Path, method: str, use: str) -> set[str]:
    text = textwrap.dedent(SOURCE).replace("METHOD", method).replace("USE", f"{use}  # use")
    (folder / "step.py").write_text(text, encoding="utf-8")
    findings = [f for f in scan_paths([folder], load_config(folder)).findings if f.code.startswith(("GS1", "GS203"))]
    found = {text.splitlines()[f.location.line - 1].rpartition("  # ")[2] for f in findings}
    # A descriptor is a class of its own.
    return {{"get": "wait", "set": "wait"}.get(mark, mark) for mark in found}


@pytest.mark.parametrize(("method", "use"), WAITS)
def test_what_python_calls_by_itself_is_read(tmp_path: Path, method: str, use: str) -> None:
    assert marks(tmp_path, method, use) == {"wait"}


@pytest.mark.parametrize(("method", "use"), WAITS)
def test_what_the_step_does_not_use_is_not_read(tmp_path: Path, method: str, use: str) -> None:
    assert marks(tmp_path, method, "x = x + size.t") == set()


@pytest.mark.parametrize("use", DIRECT)
def test_functions_that_compare_for_the_caller_wait(tmp_path: Path, use: str) -> None:
    assert marks(tmp_path, "pass", use) == {"use"}


@pytest.mark.parametrize(
    "use",
    [
        "read = torch.ones(3).sum().item; kept = read()",
        "read = x.sum().item",
        "scaled = x.mul; x = scaled(2)",
        "length = x.size; kept = torch.ones(length(0), device=x.device)",
        "kept = getattr(x, 'size')(0) > 2",
        "kept = getattr(x, 'item', None) is None",
        "best = max([x.sum()])",
        "kept = list(filter(None, [x.shape[0]]))",
    ],
)
def test_methods_that_are_not_called_or_read_nothing_do_not_wait(tmp_path: Path, use: str) -> None:
    assert marks(tmp_path, "pass", use) == set()


def test_operators_on_the_device_do_not_wait(tmp_path: Path) -> None:
    method = "def __add__(self, other): return Size(self.t + other.t)"
    assert marks(tmp_path, method, "x = x + (size + other).t") == set()

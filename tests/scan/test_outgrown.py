"""Buffers replaced when they are too small, deques of a fixed length, and entries that grow in each step."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

Found = list[tuple[str, str, str]]
"The code, the level and the line of each finding of GS402, GS703 and GS705."


def found(root: Path, source: str) -> Found:
    path = root / "step.py"
    path.write_text("import torch\nfrom torch import nn\n\n" + textwrap.dedent(source), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    findings = [f for f in scan_paths([path], Config(root=root)).findings if f.code in ("GS402", "GS703", "GS705")]
    return [(f.code, f.level, lines[f.location.line - 1].strip()) for f in findings]


TABLE = """\
    class Bias(nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.zeros(0, device="cuda")

        def forward(self, x):
            n = x.shape[-1]
            {line}
            return x + self.slope[-n:]
    """


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("if self.slope.shape[0] < n: self.slope = torch.arange(n, device=x.device) * 0.5", "warning"),
        ("self.slope = torch.cat([self.slope, x.mean(0)])", "error"),
    ],
)
def test_a_table_that_is_made_anew_for_more_rows(tmp_path: Path, line: str, level: str) -> None:
    assert found(tmp_path, TABLE.format(line=line)) == [("GS402", level, line)]


EXTENDED = """\
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.pe = None

        def extend(self, x):
            if self.pe is not None:
                {kept}
            self.pe = torch.arange(x.size(1), device=x.device).cos()

        def forward(self, x):
            self.extend(x)
            return x + self.pe[: x.size(1)]
    """


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("if self.pe.size(0) >= x.size(1): return", [("GS705", "warning")]),
        ("if self.pe.size(0) >= x.size(1): self.pe = self.pe.to(x.dtype); return", [("GS705", "warning")]),
        ("if self.pe.size(0) >= x.size(1): self.pe = self.pe.to(x.dtype)", [("GS703", "error")]),
        ("x = x * 2", [("GS703", "error")]),
    ],
)
def test_a_table_that_a_nested_test_keeps(tmp_path: Path, kept: str, expected: list[tuple[str, str]]) -> None:
    assert [(code, level) for code, level, _ in found(tmp_path, EXTENDED.format(kept=kept))] == expected


def test_a_table_that_no_step_reads(tmp_path: Path) -> None:
    source = """\
        class Rotary(nn.Module):
            def __init__(self):
                super().__init__()
                self.length, self.cos, self.cos_of_keys = 0, None, None

            def forward(self, x):
                n = x.shape[-1]
                if n > self.length:
                    self.length = n
                    self.cos = torch.arange(n, device=x.device).cos()
                    self.cos_of_keys = torch.arange(n, device=x.device).cos() / 2
                return x * self.cos
        """
    wanted = [("GS402", "warning", "self.cos = torch.arange(n, device=x.device).cos()")]
    assert found(tmp_path, source) == wanted
    of_keys = ("GS402", "warning", "self.cos_of_keys = torch.arange(n, device=x.device).cos() / 2")
    read = source.replace("x * self.cos\n", "x * self.cos * self.cos_of_keys\n")
    assert found(tmp_path, read) == [*wanted, of_keys]


ENGINE = """\
    class Engine:
        def __init__(self, net):
            self.net, self.graph = net, None
            self.rows = torch.zeros(4, 8, device="cuda")
            self.side = torch.cuda.Stream()

        def capture(self):
            with torch.cuda.stream(self.side):
                self.net(self.rows)
            torch.cuda.current_stream().wait_stream(self.side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.side):
                self.out = self.net(self.rows)

        def enlarge(self, n):
            {line}
            {drop}

        def run(self, x):
            n = x.shape[0]
            if n > self.rows.shape[0]:
                self.enlarge(n)
            if self.graph is None:
                self.capture()
            self.rows.zero_()
            self.rows[:n].copy_(x)
            self.graph.replay()
            return self.out[:n].clone()
    """
MADE = "self.rows = torch.zeros(n, 8, device='cuda')"
JOINED = "self.rows = torch.cat([self.rows, torch.zeros(n, 8, device='cuda')])"


@pytest.mark.parametrize(
    ("line", "drop", "codes"),
    [
        (MADE, "self.graph = None", []),
        (MADE, "self.calls = 1", [("GS703", "error", MADE)]),
        (JOINED, "self.graph = None", []),
    ],
)
def test_an_engine_that_captures_anew(tmp_path: Path, line: str, drop: str, codes: Found) -> None:
    assert found(tmp_path, ENGINE.format(line=line, drop=drop)) == codes


POOL = """\
    class Pool:
        def __init__(self, n):
            self.pages = torch.zeros(n, 8, device="cuda")

        def extend(self, n):
            self.pages = torch.cat([self.pages, torch.zeros(n, 8, device="cuda")])


    class Decoder:
        def __init__(self, net, pool):
            self.net, self.pool = net, pool
            self.token = torch.zeros(1, dtype=torch.long, device="cuda")
            self.net(self.token, pool.pages)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
                self.out = self.net(self.token, pool.pages)

        def step(self, token, need):
            if need > self.pool.pages.shape[0]:
                self.pool.extend(need - self.pool.pages.shape[0])
            self.token.copy_(token)
            self.graph.replay()
            return self.out.clone()
    """


def test_memory_that_a_graph_certainly_holds_has_one_finding(tmp_path: Path) -> None:
    assert [code for code, _, _ in found(tmp_path, POOL)] == ["GS703"]


DEQUE = """\
    from collections import deque

    class Frames:
        def __init__(self, device):
            self.frames = deque([torch.zeros(8, device=device) for _ in range(4)]{bound})

        def step(self, x):
            self.frames.append({added})
            return torch.stack(tuple(self.frames)).mean(0)

    def build(device):
        return Frames(device).step, (torch.rand(8, device=device),)
    """


@pytest.mark.parametrize(
    ("bound", "added", "code"),
    [(", maxlen=4", "x.clone()", "GS703"), (", maxlen=4", "x", "GS703"), ("", "x.clone()", "GS402")],
)
def test_a_deque_of_a_fixed_length_moves_its_tensors(tmp_path: Path, bound: str, added: str, code: str) -> None:
    line = f"self.frames.append({added})"
    assert found(tmp_path, DEQUE.format(bound=bound, added=added)) == [(code, "error", line)]


ENTRY = """\
    class Attention(nn.Module):
        def forward(self, q, k, {state}):
            {first}
            if "keys" in state:
                old = state["keys"].view(2, -1, 64)
                {line}
            state["keys"] = k.view(2, 8, -1, 8)
            return q @ k
    """


@pytest.mark.parametrize(
    ("line", "state", "first", "expected"),
    [
        ("k = torch.cat([old, k], dim=1)", "state: dict[str, torch.Tensor]", "pass", ["GS402", "GS703"]),
        ("k = torch.cat([old, k], dim=1)", "state", "pass", ["GS402", "GS703"]),
        # a buffer of a fixed length
        ("k = old.index_copy_(1, self.position, k)", "state", "pass", []),
        # the dict is new in each step
        ("k = torch.cat([old, k], dim=1)", "n", "state = {}", []),
        ("k = torch.cat([old, k], dim=1)", "**state", "pass", []),
        # a prefix, which no step leaves for the next
        ("k = torch.cat([k, old], dim=1)", "state", "pass", []),
    ],
)
def test_an_entry_that_the_next_step_joins_with_its_own_tensor_grows(
    tmp_path: Path, line: str, state: str, first: str, expected: list[str]
) -> None:
    told = found(tmp_path, ENTRY.format(line=line, state=state, first=first))
    assert [code for code, _, _ in told] == expected
    assert [at for _, _, at in told] == [line, 'state["keys"] = k.view(2, 8, -1, 8)'][: len(expected)]


@pytest.mark.parametrize(("passed", "expected"), [("state=self.state", ["GS402", "GS703"]), ("", [])])
def test_a_dict_that_no_caller_passes_does_not_grow(tmp_path: Path, passed: str, expected: list[str]) -> None:
    source = textwrap.dedent(ENTRY).format(line="k = torch.cat([old, k], dim=1)", state="state=None", first="pass")
    model = f"""\

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.state = Attention(), {{}}

    def forward(self, x):
        return self.attention(x, x, {passed})
"""
    assert [code for code, _, _ in found(tmp_path, source + model)] == expected


ADOPTED = """\
import torch
from torch import nn
from lib import plan


class Builder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tiles = self.splits = None

    def forward(self, lengths: torch.Tensor):
        tiles, splits = plan(lengths)
        if self.tiles is None:
            self.tiles = {tiles}
            self.splits = {splits}
        else:
            self.tiles{refill}(tiles)
            view = {view}
            view{refill}(splits)
        return self.tiles, self.splits
"""
VIEW = "self.splits[: splits.size(0)]"


@pytest.mark.parametrize(
    ("tiles", "splits", "view", "refill", "expected"),
    [
        ("tiles", "splits", VIEW, ".copy_", ["self.tiles = tiles", "self.splits = splits"]),
        ("torch.zeros(64, device='cuda')", "torch.zeros(64, device='cuda')", VIEW, ".copy_", []),
        ("tiles", "torch.zeros(64, device='cuda')", VIEW, ".copy_", ["self.tiles = tiles"]),
        ("tiles", "splits", "self.splits", ".copy_", []),  # all steps probably have tensors of one size
        ("tiles", "splits", VIEW, ".lerp", []),
    ],
)
def test_a_tensor_of_the_first_step_becomes_a_buffer(
    tmp_path: Path, tiles: str, splits: str, view: str, refill: str, expected: list[str]
) -> None:
    path = tmp_path / "step.py"
    path.write_text(ADOPTED.format(tiles=tiles, splits=splits, view=view, refill=refill), encoding="utf-8")
    lines = path.read_text(encoding="utf-8").splitlines()
    findings = [one for one in scan_paths([path], Config(root=tmp_path)).findings if "takes over" in one.message]
    assert [lines[one.location.line - 1].strip() for one in findings] == expected


@pytest.mark.parametrize(
    ("test", "grows"),
    [
        ("self.global_step < self.warmup", False),
        ("self.num_updates < n", False),
        ("self.rows < n", True),
        ("self.max_steps < n", True),
    ],
)
def test_a_counter_of_steps_is_no_size_of_a_buffer(tmp_path: Path, test: str, grows: bool) -> None:
    line = f"if {test}: self.slope = torch.arange(n, device=x.device) * 0.5"
    source = TABLE.format(line=line)
    assert ("GS402", "warning", line) in found(tmp_path, source) if grows else found(tmp_path, source) == []

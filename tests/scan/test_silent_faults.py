"""Silent faults around graphs: entries that a first step fills, the one graph of a first call, outputs that are fed
back; and the code that a registry or another file leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

CROSS = """\
    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, context: torch.Tensor, cache=None):
            if {test}:
                cache["is_init"] = True
                k = self.keys(context)
                cache["k"] = k
            else:
                k = cache["k"]
            return x * k
    """


@pytest.mark.parametrize(
    ("test", "found"), [('not cache["is_init"]', [("GS701", 'cache["k"] = k')]), ('cache["masked"]', [])]
)
def test_entries_of_a_callers_table_that_its_own_flag_guards(scan: Scan, test: str, found: object) -> None:
    assert scan(CROSS.format(test=test)) == found


CAST = """\
    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.held = {{}}

        def cast(self, dtype):
            key = self.weight._version
            entry = self.held.get(dtype)
            if entry is not None and {fits}:
                return entry[1]
            weight = self.weight * 2
            self.held[dtype] = (key, weight)
            return weight

        def forward(self, x: torch.Tensor):
            return x * self.cast(x.dtype)
    """


@pytest.mark.parametrize(
    ("fits", "found"), [("entry[0] == key", [("GS705", "self.held[dtype] = (key, weight)")]), ("self.held", [])]
)
def test_an_entry_that_is_made_anew_for_another_key_of_its_own(scan: Scan, fits: str, found: object) -> None:
    assert scan(CAST.format(fits=fits)) == found


BOUNDED = """\
    from collections import OrderedDict

    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = OrderedDict()

        def table(self, size, device):
            pair = self.tables.get(size)
            if pair is None:
                angles = torch.arange(size, device=device)
                pair = (angles.cos(), angles.sin())
                self.tables[size] = pair
                {after}
            return pair

        def forward(self, x: torch.Tensor):
            cos, sin = self.table(x.shape[0], x.device)
            return x * cos + sin
    """


@pytest.mark.parametrize(("after", "codes"), [("self.tables.popitem(last=False)", ["GS705"]), ("pass", [])])
def test_a_bounded_table_of_pairs(scan: Scan, after: str, codes: list[str]) -> None:
    assert [code for code, _ in scan(BOUNDED.format(after=after))] == codes


ONE_GRAPH = """
import torch
from typing import Optional

class Step:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.graph, self.is_captured = None, False

    def _capture(self, x: torch.Tensor, limit: Optional[int]):
        self.x = x.clone()
        self.model(self.x, limit)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.y = self.model(self.x, limit)
        self.is_captured = True

    def __call__(self, x: torch.Tensor, limit: Optional[int] = None):
        {before}
        if {test}:
            self._capture(x, limit)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""


@pytest.mark.parametrize(
    ("test", "before", "found"),
    [
        ("not self.is_captured", "pass", True),
        ("self.graph is None", "pass", True),
        ("self.graph is None or limit != self.limit", "pass", False),
        ("not self.is_captured", "assert limit == self.limit", False),
    ],
)
def test_a_number_of_the_first_call_in_the_one_graph(tmp_path: Path, test: str, before: str, found: bool) -> None:
    (tmp_path / "one.py").write_text(ONE_GRAPH.format(test=test, before=before), encoding="utf-8")
    assert ("GS713" in {one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings}) is found


FED_BACK = """
import torch

class World:
    def __init__(self, model):
        self.model = model
        self.state = torch.zeros(4, device="cuda")

    def frame(self, x: torch.Tensor):
        {line}
        return x

    @torch.compile(mode="{mode}")
    def _turn(self, x, state):
        return self.model(x, state)
"""


@pytest.mark.parametrize(
    ("line", "mode", "found"),
    [
        ("self.state = self._turn(x, self.state)", "reduce-overhead", True),
        ("self.state = self._turn(x, self.state).clone()", "reduce-overhead", False),
        ("self.state = self._turn(x, x)", "reduce-overhead", False),
        ("self.state = self._turn(x, self.state)", "default", False),
    ],
)
def test_an_output_that_a_compiled_function_gets_back(tmp_path: Path, line: str, mode: str, found: bool) -> None:
    (tmp_path / "world.py").write_text(FED_BACK.format(line=line, mode=mode), encoding="utf-8")
    assert ("GS706" in {one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings}) is found


SPEECH = """
import torch

class Speaker:
    def __init__(self, model, device):
        self._model, self.device = model, device

    def speak(self, tokens: torch.Tensor, frames: int):
        for _ in range(frames):
            sample = self._model.{method}(tokens)
            tokens = torch.cat([sample, torch.zeros(1, 1).to(self.device)], dim=1)
"""


@pytest.mark.parametrize(("method", "found"), [("generate_frame", True), ("forward_batch", True), ("generate", False)])
def test_a_loop_that_runs_a_model_by_a_method_for_one_step(tmp_path: Path, method: str, found: bool) -> None:
    (tmp_path / "speaker.py").write_text(SPEECH.format(method=method), encoding="utf-8")
    assert ("GS304" in {one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings}) is found


def test_a_tensor_of_the_step_may_get_other_memory(scan: Scan) -> None:
    source = """\
        class Reduced(nn.Module):
            def forward(self, x: torch.Tensor):
                x.data = x.data * 2
                return x
        """
    assert scan(source) == []


RECURRENT = """\
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(8, 8)
            self.hidden = torch.zeros(1, 8, device="cuda")
            self.moments = {{id(p): torch.zeros_like(p) for p in self.parameters()}}

        def forward(self, frames: torch.Tensor):
            {step}
            return frames
    """
UNROLLED = """hidden = self.hidden
            for frame in frames.unbind(1):
                hidden = {new}
            {store}"""
TAKEN_BACK = """hidden = self.hidden
            for frame in frames.unbind(1):
                hidden = self.cell(frame, hidden)
            else:
                hidden = self.hidden
            self.hidden = hidden"""
MOMENTS = """for p in self.parameters():
                {store}"""


@pytest.mark.parametrize(
    ("step", "is_found"),
    [
        (UNROLLED.format(new="self.cell(frame, hidden)", store="self.hidden = hidden"), True),
        (UNROLLED.format(new="self.cell(frame, hidden)", store="self.hidden.copy_(hidden)"), False),
        (UNROLLED.format(new="hidden.mul_(frame)", store="self.hidden = hidden"), False),
        (TAKEN_BACK, False),
        (MOMENTS.format(store="self.moments[id(p)] = self.moments[id(p)] * 0.9 + p.grad"), True),
        (MOMENTS.format(store="self.moments[id(p)].mul_(0.9).add_(p.grad)"), False),
    ],
)
def test_state_that_a_loop_of_the_step_makes_anew(scan: Scan, step: str, is_found: bool) -> None:
    assert ("GS703" in {code for code, _ in scan(RECURRENT.format(step=step))}) is is_found

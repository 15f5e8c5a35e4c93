"""Local names that stand for the same object as an attribute, in the functions that capture and replay."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths
from graphsafe.scan.hazards.same_objects import spelled_out

CLASS = """
import torch
from torch import nn

class Runner:
    def __init__(self, model, stream, device):
{made}
        self.outs = []

    def run(self, b):
        {filled}
        self.graph.replay()
        {kept}

    def reload(self, w):
        self.model.weight = nn.Parameter(w)
"""
LOCAL = """
self.model = model
x = torch.zeros(3, device=device)
model(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    y = model(x)
self.graph = graph
self.x = x
self.y = y
"""
UNPACKED = """
self.model = model
x = torch.zeros(3, device=device)
y = model(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    y = model(x)
self.graph, self.x, self.y = graph, x, y
"""
TAKEN = """
self.model = model
self.x = torch.zeros(3, device=device)
x, net = self.x, self.model
net(x)
self.graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(self.graph, stream=stream):
    y = self.y = net(x)
"""
COPIED = LOCAL.replace("self.x = x", "self.x, self.own = x.clone(), x").replace("self.y = y", "self.y = y.clone()")
REBOUND = LOCAL.replace("self.x = x", "x = self.x = torch.ones(3, device=device)").replace(
    "self.y = y", "y = y.clone()\nself.y = y"
)
SOMETIMES = LOCAL.replace("self.x = x", "if stream is None:\n    self.x = x").replace(
    "self.y = y", "if stream is None:\n    self.y = y"
)


def codes(tmp_path: Path, made: str, filled: str = "self.x.copy_(b)", kept: str = "return self.y.clone()") -> set[str]:
    text = CLASS.format(made=textwrap.indent(made.strip(), " " * 8), filled=filled, kept=kept)
    (tmp_path / "runner.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    return {one.code for one in report.findings if one.code != "GS401"}


@pytest.mark.parametrize("made", [LOCAL, UNPACKED, TAKEN])
def test_a_capture_of_local_names_has_the_findings_of_one_of_attributes(tmp_path: Path, made: str) -> None:
    assert codes(tmp_path, made) == {"GS711"}
    assert codes(tmp_path, made, filled="self.x = b") == {"GS707", "GS711"}
    assert codes(tmp_path, made, kept="self.outs.append(self.y)") == {"GS706", "GS711"}
    assert codes(tmp_path, made, filled="y = self.y", kept="self.outs.append(y)") == {"GS706", "GS711"}


def test_a_value_computed_from_an_input_before_the_capture(tmp_path: Path) -> None:
    made = LOCAL.replace("model(x)", "model(x, mask)").replace("device=device)", "device=device)\nmask = x > 4", 1)
    assert codes(tmp_path, made + "self.mask = mask\n") == {"GS705", "GS711"}
    inside = made.replace("mask = x > 4\n", "").replace("x, mask", "x, x > 4")
    assert codes(tmp_path, inside) == {"GS711"}


@pytest.mark.parametrize("made", [COPIED, SOMETIMES])
def test_another_object_is_not_the_captured_one(tmp_path: Path, made: str) -> None:
    assert codes(tmp_path, made, filled="self.x = b", kept="self.outs.append(self.y)").isdisjoint({"GS706", "GS707"})


def test_a_name_that_is_bound_again_stands_for_the_new_object(tmp_path: Path) -> None:
    assert "GS707" not in codes(tmp_path, REBOUND, filled="self.x = b")
    assert "GS706" not in codes(tmp_path, REBOUND, kept="self.outs.append(self.y)")


def test_an_earlier_object_keeps_its_own_name() -> None:
    code = """
        class Runner:
            def capture(self, model, x):
                old = self.y
                y = model(x)
                self.y = y
                with torch.cuda.graph(self.graph):
                    out = model(x)
                self.x = x
                return old, y, out, lambda: x

            def swap(self, b):
                front = self.front
                self.front = b
                return front
        """
    tree = ast.parse(textwrap.dedent(code))
    assert ast.unparse(spelled_out(tree)) == ast.unparse(tree)


WARM = """
import torch

class Runner:
    def __init__(self, model, runner, x, stream):
        self.model = model
        self.other = runner.net
        net = runner.net
        step = runner.decode
        {warm}
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = {captured}
"""


@pytest.mark.parametrize(
    ("warm", "captured"),
    [
        ("model(x)", "self.model(x)"),
        ("self.model(x)", "model(x)"),
        ("runner.net(x)", "net(x)"),
        ("net(x)", "runner.net.forward(x)"),
        ("step(x)", "runner.decode(x)"),
    ],
)
def test_a_warm_up_under_another_name(tmp_path: Path, warm: str, captured: str) -> None:
    (tmp_path / "runner.py").write_text(WARM.format(warm=warm, captured=captured), encoding="utf-8")
    assert [one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings] == []
    (tmp_path / "runner.py").write_text(WARM.format(warm="runner.draft(x)", captured=captured), encoding="utf-8")
    assert [one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings] == ["GS606"]


LOOP = """
import torch

def capture(model, x, stream):
    for i in range(4):
        if i == 3:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                y = model(x)
        {otherwise}
    return graph, y
"""


def test_an_earlier_iteration_warms_up(tmp_path: Path) -> None:
    for otherwise, expected in (("else:\n            model(x)", []), ("model(x)", ["GS606"])):
        (tmp_path / "loop.py").write_text(LOOP.format(otherwise=otherwise), encoding="utf-8")
        assert [one.code for one in scan_paths([tmp_path], Config(root=tmp_path)).findings] == expected

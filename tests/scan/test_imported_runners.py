"""Outputs of graphs that a caller in another file keeps past the next replay."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

RUNNER = """\
import torch

class GraphRunner:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.x = torch.zeros(4, 8, device="cuda")
        self.graphs, self.outs = {{}}, {{}}

    def capture(self, n):
        self.model(self.x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            out = self.model(self.x)
        self.graphs[n], self.outs[n] = graph, out

    def step(self, x):
        self.x.copy_(x)
        self.graphs[len(x)].replay()
        return {returned}
"""
ENGINE = """\
from runner import GraphRunner

class Engine:
    def __init__(self, model, stream):
        self.runner = GraphRunner(model, stream)

    def generate(self, batches):
        kept = []
        for x in batches:
            out = {call}
            kept.append({value})
        return kept
"""


@pytest.mark.parametrize(
    ("returned", "call", "value", "is_kept"),
    [
        ("self.outs[len(x)]", "self.runner.step(x)", "out", True),
        ("self.outs[len(x)]", "self.runner.step(x)", "out[:2]", True),
        ("self.outs[len(x)]", "self.runner.step(x)", "out.clone()", False),
        ("self.outs[len(x)]", "self.runner.step(x)", "out.argmax(-1)", False),
        ("self.outs[len(x)].clone()", "self.runner.step(x)", "out", False),
        ("self.outs[len(x)]", "self.eager.step(x)", "out", False),
        ("self.outs[len(x)]", "self.runner.model(x)", "out", False),
    ],
)
@pytest.mark.parametrize("made", ["made", "annotated"])
def test_a_method_of_an_imported_class(
    tmp_path: Path, made: str, returned: str, call: str, value: str, is_kept: bool
) -> None:
    engine = ENGINE.format(call=call, value=value)
    if made == "annotated":
        engine = engine.replace("model, stream):", "runner: GraphRunner):").replace(
            "GraphRunner(model, stream)", "runner"
        )
    (tmp_path / "runner.py").write_text(RUNNER.format(returned=returned), encoding="utf-8")
    (tmp_path / "engine.py").write_text(textwrap.dedent(engine), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    places = [(Path(one.location.path).name, one.location.line) for one in found if one.code == "GS706"]
    line = engine.splitlines().index(f"            kept.append({value})") + 1
    assert places == ([("engine.py", line)] if is_kept else [])

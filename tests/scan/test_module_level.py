"""Scripts whose captures and replays stand at module level, and captures that use global names."""

from __future__ import annotations

import pytest

from .conftest import Scan

SCRIPT = """
model = torch.nn.Linear(4, 4).cuda()
x = torch.zeros(8, 4, device="cuda")
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    model(x)
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=stream):
    y = model(x)
kept, last = [], None
for k in range(100):
    new = torch.randn(8, 4, device="cuda")
    {line}
    graph.replay()
    {after}
"""
GLOBALS = """
model = torch.nn.Linear(4, 4).cuda()
x = torch.zeros(8, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
y = None


def install(stream):
    global y
    model(x)
    with torch.cuda.graph(graph, stream=stream):
        y = model(x)


def main():
    kept, last = [], None
    for k in range(100):
        new = torch.randn(8, 4, device="cuda")
        {line}
        graph.replay()
        {after}
"""
CASES = [
    ("x.copy_(new)", "kept.append(y)", {("GS706", "kept.append(y)")}),
    ("x.copy_(new)", "kept.append(y.clone())", set()),
    ("x.copy_(new)", "last = y", {("GS706", "last = y")}),
    ("x[:k].copy_(new[:k])", "kept.append(y.sum().item())", {("GS708", "x[:k].copy_(new[:k])")}),
]


@pytest.mark.parametrize(("line", "after", "told"), [*CASES, ("x = new", "pass", {("GS707", "x = new")})])
def test_a_script(scan: Scan, line: str, after: str, told: set[tuple[str, str]]) -> None:
    read = "if last is not None: kept.append((y - last).clone())\n    "
    found = scan(SCRIPT.format(line=line, after=read + after))
    assert {one for one in found if one[0].startswith("GS7")} == told


@pytest.mark.parametrize(("line", "after", "told"), CASES)
def test_functions_that_share_global_names(scan: Scan, line: str, after: str, told: set[tuple[str, str]]) -> None:
    read = "if last is not None: kept.append((y - last).clone())\n        "
    found = scan(GLOBALS.format(line=line, after=read + after))
    assert {one for one in found if one[0].startswith("GS7")} == told

"""Captures of a model that the same function has made and not run."""

from __future__ import annotations

import pytest

from .conftest import Scan

MAIN = """\
def warm_up(model, x):
    for _ in range(3):
        model(x)

def main(device, stream):
    x = torch.zeros(2, 8, device=device)
    other = nn.Linear(8, 8).to(device)
    warm_up(other, x)
    net = {made}
    {before}
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        y = net(x)
    graph.replay()
"""


@pytest.mark.parametrize(
    ("made", "before", "found"),
    [
        ("nn.Linear(8, 8).to(device).eval()", "pass", True),
        ("nn.Linear(8, 8).to(device)", "warm_up(net, x)", False),
        ("nn.Linear(8, 8).to(device)", "net(x)", False),
        ("nn.Linear(8, 8).to(device)", "engine = warm_up, net", False),
        ("build(device)", "pass", False),
        ("WarmModel(device)", "pass", False),
        ("nn.Linear(8, 8).prepared(x)", "pass", False),
    ],
)
def test_a_warm_up_of_another_model_does_not_count(scan: Scan, made: str, before: str, found: bool) -> None:
    codes = [code for code, _ in scan(MAIN.format(made=made, before=before))]
    assert ("GS606" in codes) is found

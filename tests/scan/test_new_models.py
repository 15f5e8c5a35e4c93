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


RUNNER = """\
class Runner:
    def __init__(self, device, stream, model):
        self.x = torch.zeros(2, 8, device=device)
        self.net = {made}
        self.graph = torch.cuda.CUDAGraph()
        {before}
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x)

    def prepare(self):
        pass

    def eager(self, x):
        return self.net(x)

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()
"""


@pytest.mark.parametrize(
    ("made", "before", "found"),
    [
        ("nn.Linear(8, 8).to(device)", "pass", True),
        ("nn.Linear(8, 8).to(device)", "self.net(self.x)", False),
        ("nn.Linear(8, 8).to(device)", "self.prepare()", False),
        ("nn.Linear(8, 8).to(device)", "prepare(self)", False),
        ("nn.Linear(8, 8).to(device)", "run = self.net", False),
        ("model", "pass", False),
        ("nn.DataParallel(model)", "pass", False),
        ("build(device)", "pass", False),
    ],
)
def test_a_constructor_captures_the_model_that_it_makes(scan: Scan, made: str, before: str, found: bool) -> None:
    codes = [code for code, _ in scan(RUNNER.format(made=made, before=before))]
    assert ("GS606" in codes) is found


LATER = """\
class Runner:
    def __init__(self, device, model):
        self.net = {made}

    def capture(self, x, stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.y = self.net(x)
        return graph
"""
OTHER = """\


class Other{base}:
    def __init__(self, device):
        self.net = nn.Linear(8, 8).to(device)

    def {method}(self, x):
        return self.net(x)
"""


@pytest.mark.parametrize(
    ("made", "base", "method", "found"),
    [
        ("nn.Linear(8, 8).to(device)", "", "forward", True),
        ("nn.Linear(8, 8).to(device)", "", "warm_up", False),
        ("nn.Linear(8, 8).to(device)", "(Runner)", "forward", False),
        ("nn.DataParallel(model)", "", "forward", False),
    ],
)
def test_another_class_calls_a_model_of_the_same_name(
    scan: Scan, made: str, base: str, method: str, found: bool
) -> None:
    codes = [code for code, _ in scan(LATER.format(made=made) + OTHER.format(base=base, method=method))]
    assert ("GS606" in codes) is found

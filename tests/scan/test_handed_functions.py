"""Functions that hot code hands to code that is not read, and methods that a library calls instead of `forward`."""

from __future__ import annotations

import pytest

from tests.scan.conftest import Scan

HANDED = """
    from torchdiffeq import odeint
    from solvers import solve

    class Flow(nn.Module):
        def forward(self, graph, x: torch.Tensor, times: torch.Tensor):
            def damp(y):
                if y.norm() > 1:
                    return y / 2
                return y

            return {call}

        def rate(self, t, x):
            return x / x.max().item()

        def send(self, edges):
            return {{"m": edges.src["h"] / edges.src["h"].max().item()}}
"""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("solve(self.rate, x, times)", ("GS101", "return x / x.max().item()")),
        ("solve(damp, x)", ("GS102", "if y.norm() > 1:")),
        ("graph.update_all(self.send)", ("GS101", 'return {"m": edges.src["h"] / edges.src["h"].max().item()}')),
        ("solve(lambda y: y * y.max().item(), x)", ("GS101", "return solve(lambda y: y * y.max().item(), x)")),
    ],
)
def test_unknown_code_calls_the_functions_that_it_is_given_with_tensors(
    scan: Scan, call: str, found: tuple[str, str]
) -> None:
    assert scan(HANDED.format(call=call)) == [found]


def test_a_known_solver_waits_and_calls_its_function(scan: Scan) -> None:
    assert [code for code, _ in scan(HANDED.format(call="odeint(self.rate, x, times)"))] == ["GS106", "GS101"]


def test_code_that_receives_nothing_of_the_step_may_call_the_function_later(scan: Scan) -> None:
    assert scan(HANDED.format(call="solve(self.rate, 3)")) == []


def test_a_graph_layer_s_message_runs_in_its_forward(scan: Scan) -> None:
    source = """
        from torch_geometric.nn import MessagePassing

        class Layer(MessagePassing):
            def forward(self, x, edge_index):
                return self.propagate(edge_index, x=x)

            def message(self, x_j, index):
                return x_j / (int(index.max()) + 1)
    """
    assert scan(source) == [("GS101", "return x_j / (int(index.max()) + 1)")]


PARTS = """
    class Planner(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Linear(4, 4)
            self.count = 0

        {other}

        def {name}(self, x):
            return {value}.cpu()
"""


@pytest.mark.parametrize(
    ("name", "value", "other", "found"),
    [
        ("first_inference", "self.encode(x)", "", True),
        ("_first_inference", "self.encode(x)", "", False),
        ("test_inference", "self.encode(x)", "", False),
        ("first_inference", "self.decode(x)", "", False),
        ("first_inference", "self.encode(x)", "def forward(self, x): return self.encode(x)", False),
    ],
)
def test_public_methods_that_call_the_parts_of_a_module_without_forward_are_its_forwards(
    scan: Scan, name: str, value: str, other: str, found: bool
) -> None:
    told = scan(PARTS.format(name=name, value=value, other=other))
    assert told == ([("GS103", f"return {value}.cpu()")] if found else [])

"""Inputs of a graph in a list or a dict that the captured call takes apart."""

from __future__ import annotations

import pytest

from .conftest import Scan

SPREAD = """\
class Engine:
    def __init__(self, model, stream):
        self.inputs = {made}
        model({given})
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.out = model({given})

    def run(self, ids):
        {line}
        self.graph.replay()
        return self.out.clone()
"""
LIST = "[torch.zeros(4, device='cuda')]"


@pytest.mark.parametrize(
    ("made", "given", "line", "found"),
    [
        (LIST, "*self.inputs", "self.inputs[0] = ids", True),
        (LIST, "*self.inputs", "for i in range(1): self.inputs[i] = ids", True),
        ("{'ids': torch.zeros(4, device='cuda')}", "**self.inputs", "self.inputs['ids'] = ids", True),
        (LIST, "*self.inputs", "self.inputs[0].copy_(ids)", False),
        (LIST, "*self.inputs", "self.inputs[0][:2] = ids", False),
        (LIST, "*self.inputs", "self.inputs[0] = self.inputs[0].view(-1)", False),
        ("torch.zeros(2, 4, device='cuda')", "*self.inputs", "self.inputs[0] = ids", False),
    ],
)
def test_an_input_of_a_container_that_the_capture_takes_apart(
    scan: Scan, made: str, given: str, line: str, found: bool
) -> None:
    told = scan(SPREAD.format(made=made, given=given, line=line))
    assert (("GS707", line) in told) is found

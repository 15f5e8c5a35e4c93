"""Inputs of a graph that a function fills only in part before the replay."""

from __future__ import annotations

import pytest

from .conftest import Scan

STREAM = """
class Stream:
    def __init__(self, net, device):
        self.net = net
        self.mel = torch.zeros(1, 40, 100, device=device)
        self.mask = torch.zeros(1, 100, dtype=torch.bool, device=device)
        self.lengths = torch.zeros(1, dtype=torch.int32, device=device)

    def capture(self):
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.mel, self.mask, self.lengths)

    def push(self, mel, mask):
        n = mel.shape[-1]
        {fills}
        self.graph.replay()
        return {returned}
"""


@pytest.mark.parametrize(
    ("fills", "returned", "filled"),
    [
        ("self.mel[..., :n].copy_(mel)", "self.y[..., :n].clone()", {"self.mel[..., :n].copy_(mel)"}),
        ("self.mel[..., :n].copy_(mel); self.mel[..., n:].zero_()", "self.y[..., :n].clone()", set()),
        ("self.mel.zero_(); self.mel[..., :n].copy_(mel)", "self.y[..., :n].clone()", set()),
        # Another input tells the graph how many columns count.
        ("self.mel[..., :n].copy_(mel); self.lengths.fill_(n)", "self.y[..., :n].clone()", set()),
        # A mask that is filled in part still shows the columns of an earlier call.
        (
            "self.mel[..., :n].copy_(mel); self.lengths.fill_(n); self.mask[:, :n].copy_(mask)",
            "self.y[..., :n].clone()",
            {"self.mask[:, :n].copy_(mask)"},
        ),
        # Rows do not see each other, unless the result is one number.
        ("self.mel[:n].copy_(mel)", "self.y[:n].clone()", set()),
        ("self.mel[:n].copy_(mel); self.lengths.fill_(n)", "self.y.item() / n", {"self.mel[:n].copy_(mel)"}),
    ],
)
def test_the_rest_of_an_input_counts(scan: Scan, fills: str, returned: str, filled: set[str]) -> None:
    found = scan(STREAM.format(fills=fills.replace("; ", "\n        "), returned=returned))
    assert {line for code, line in found if code == "GS708" and "[" in line} == filled

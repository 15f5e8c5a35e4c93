"""Trainers whose graphs make the gradients, while the optimizer steps outside of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

TRAINER = """\
import torch
import torch.nn.functional as F


class GraphedLoss:
    def __init__(self, net, x, stream):
        self.net, self.x = net, x
        self._work()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._work()

    def _work(self):
        loss = self.net(self.x).square().mean()
        loss.backward()
        self.loss = loss.detach()

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.loss


def train(net, graphed, opt, batches):
    for x in batches:
        {clear}
        loss = {run}
        opt.step()


def main(net, batches, device):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    graphed = GraphedLoss(net, torch.zeros(4, 8, device=device), torch.cuda.Stream(device))
    train(net, graphed, opt, batches)
"""


@pytest.mark.parametrize(
    ("clear", "run", "found"),
    [
        ("opt.zero_grad()", "graphed(x)", True),
        ("net.zero_grad(set_to_none=True)", "graphed(x)", True),
        ("opt.zero_grad(set_to_none=False)", "graphed(x)", False),
        ("for p in net.parameters(): p.grad.zero_()", "graphed(x)", False),
        ("opt.zero_grad()", "net(x).sum(); loss.backward()", False),
    ],
)
def test_gradients_are_dropped_beside_an_object_that_replays(tmp_path: Path, clear: str, run: str, found: bool) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER.format(clear=clear, run=run), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    dropped = [one for one in report.findings if "zero_grad" in one.message and one.code.startswith("GS7")]
    assert bool(dropped) == found

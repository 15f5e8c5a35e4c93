"""Trainers whose graphs make the gradients, while the optimizer steps outside of them."""

from __future__ import annotations

import textwrap
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


GRAPHED = """
    import torch

    def fit(trunk, head, batches, sample, gain):
        fast = torch.cuda.make_graphed_callables(trunk, (sample,))
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for x in batches:
            loss = head(fast(x)).mean()
            loss.backward()
            optimizer.step()
            torch.cuda.current_stream().synchronize()  # in the loop

    def prepare(trunk, sample, batches):
        for x in batches:
            loss = trunk(x).mean()
            loss.backward()
            torch.cuda.current_stream().synchronize()
        return torch.cuda.make_graphed_callables(trunk, (sample,))
"""


def test_training_after_a_capture_is_no_warm_up(tmp_path: Path) -> None:
    path = tmp_path / "fit.py"
    path.write_text(textwrap.dedent(GRAPHED), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    lines = path.read_text(encoding="utf-8").splitlines()
    waits = [lines[one.location.line - 1] for one in found if one.code == "GS105" and one.level != "note"]
    assert [line.rpartition("# ")[2] for line in waits] == ["in the loop"]


@pytest.mark.parametrize(
    ("made", "given", "found"),
    [
        ("ReduceLROnPlateau(opt)", "graphed.loss", True),
        ("ReduceLROnPlateau(opt)", "metrics=graphed.loss", True),
        ("ReduceLROnPlateau(opt)", "0.5", False),
        ("ReduceLROnPlateau(opt)", "evaluate(net)", False),
        ("StepLR(opt, 10)", "", False),
    ],
)
def test_a_scheduler_that_compares_losses_on_the_host(tmp_path: Path, made: str, given: str, found: bool) -> None:
    source = TRAINER.format(clear=f"schedule.step({given})", run="graphed(x)")
    source = source.replace(
        "    for x in batches:", f"    schedule = torch.optim.lr_scheduler.{made}\n    for x in batches:"
    )
    (tmp_path / "trainer.py").write_text(source, encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert [one.data["expr"] for one in findings if one.code == "GS101"] == [f"schedule.step({given})"] * found


TUNER = """\
import torch


class Tuner:
    def __init__(self, net, x, stream):
        self.net, self.x = net, x
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self._work()
        self._clear()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self._work()

    def _work(self):
        self.net(self.x).square().mean().backward()

    def _clear(self):
        self.opt.step()
        self.opt.zero_grad()

    def accumulate(self, x):
        self.x.copy_(x)
        self.graph.replay()

    def apply(self):
        {body}

    def epoch(self, batches):
        for number, x in enumerate(batches):
            self.accumulate(x)
            if number % 4 == 3:
                self.apply()
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self.opt.step(); self.opt.zero_grad()", True),
        ("self.opt.step(); self.opt.zero_grad(set_to_none=False)", False),
        ("self.net(self.x).sum().backward(); self.opt.step(); self.opt.zero_grad()", False),
    ],
)
def test_another_method_of_the_object_drops_gradients(tmp_path: Path, body: str, found: bool) -> None:
    (tmp_path / "tuner.py").write_text(TUNER.format(body=body), encoding="utf-8")
    findings = scan_paths([tmp_path], Config(root=tmp_path)).findings
    assert ("GS703" in [one.code for one in findings if "drops the gradient" in one.message]) is found

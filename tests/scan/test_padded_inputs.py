"""Batches that fill only a part of a graph's input: whether the captured module depends on the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

RUNNER = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, cache):
        super().__init__()
        self.cache = cache
        self.mix = nn.Conv1d(4, 4, 3{padding})

    def forward(self, x, mask):
        {forward}
        return x


class Runner:
    def __init__(self, cache, stream):
        self.net = Net(cache).cuda()
        self.x = torch.zeros(8, 4, 16, device="cuda")
        self.mask = torch.zeros(8, 4, 16, device="cuda")
        self.net(self.x, self.mask)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = self.net(self.x, self.mask)

    def load(self, x, mask):
        n = x.shape[{axis}]
        {fill}
        return n

    def run(self, x, marks):
        n = x.shape[{axis}]
        {refill}
        self.graph.replay()
        return self.y[:n].clone()
"""
ROWS = "self.x[:n].copy_(x)"
COLUMNS = "self.x[:, :n].copy_(x)"
LAST = "self.x[..., :n].copy_(x)"


def _found(tmp_path: Path, **words: str) -> set[str]:
    text = RUNNER.format(**{"padding": "", "forward": "pass", "fill": "pass", "axis": "0", **words})
    (tmp_path / "runner.py").write_text(text, encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    lines = text.splitlines()
    return {lines[one.location.line - 1].strip() for one in found if one.code == "GS708"}


@pytest.mark.parametrize(
    ("refill", "forward", "found"),
    [
        (ROWS, "x = x - x.mean(dim=0)", True),
        (ROWS, "x = x / x.sum()", True),
        (ROWS, "h = x * 2; x = torch.softmax(h, 0)", True),
        (ROWS, "self.cache[x.long()] = mask", True),
        (ROWS, "self.cache[:, x.long()] = mask", False),
        (ROWS, "x = x - x.mean(dim=1)", False),
        (ROWS, "x = x - mask.mean(dim=0)", False),
        (ROWS, "x = (x * mask).sum(0)", False),  # the mask may leave the other rows out
        (COLUMNS, "x = x - x.mean(1, keepdim=True)", True),
        (COLUMNS, "x = x - x.mean(-1, keepdim=True)", False),
        (LAST, "x = x - x.mean(-1, keepdim=True)", True),
        (LAST, "h = x.transpose(1, 2); x = h - h.mean(1, keepdim=True)", True),
        (LAST, "h = x.transpose(1, 2); x = h - h.mean(-1, keepdim=True)", False),
        (f"{ROWS}; self.x[n:].zero_()", "x = x - x.mean(dim=0)", False),
        (f"self.x.zero_(); {ROWS}", "x = x - x.mean(dim=0)", False),
        (f"{ROWS}; self.load(x, n)", "x = x - x.mean(dim=0)", True),
        (f"{ROWS}; self.mask[:n].copy_(marks)", "x = (x * mask).sum(0)", True),  # no replay takes the old mask away
    ],
)
def test_a_module_mixes_the_rows_of_a_batch_with_the_rest(
    tmp_path: Path, refill: str, forward: str, found: bool
) -> None:
    assert _found(tmp_path, refill=refill, forward=forward) == ({refill} if found else set())


def test_another_method_clears_the_rest(tmp_path: Path) -> None:
    fill, refill = "self.x[mask:].zero_()", f"{ROWS}; self.load(x, n)"
    assert _found(tmp_path, fill=fill, refill=refill, forward="x = x - x.mean(dim=0)") == set()


def test_a_causal_convolution_reads_only_the_filled_columns(tmp_path: Path) -> None:
    assert _found(tmp_path, refill=LAST, forward="x = self.mix(x)[..., :-2]", padding=", padding=2") == set()


@pytest.mark.parametrize(("padding", "found"), [(", padding=1", True), ("", False)])
def test_a_convolution_reads_beyond_the_filled_columns(tmp_path: Path, padding: str, found: bool) -> None:
    assert _found(tmp_path, refill=LAST, forward="x = self.mix(x)", padding=padding) == ({LAST} if found else set())


@pytest.mark.parametrize(
    ("fill", "refill", "found"),
    [
        ("self.mask[:n].fill_(1)", "self.x.copy_(x); self.load(x, marks)", True),
        ("self.mask[:n] = True", "self.x.copy_(x); self.load(x, marks)", True),
        ("self.mask[:n].fill_(0)", "self.x.copy_(x); self.load(x, marks)", False),
        ("self.mask[:4].fill_(1)", "self.x.copy_(x); self.load(x, marks)", False),
        ("self.mask[:n].fill_(1)", "self.x.copy_(x); self.mask.zero_(); self.load(x, marks)", False),
        ("self.mask[:n].fill_(1)", "self.x.copy_(x)", False),  # no replay calls the method
    ],
)
def test_marks_of_earlier_batches_stay(tmp_path: Path, fill: str, refill: str, found: bool) -> None:
    assert _found(tmp_path, fill=fill, refill=refill) == ({fill} if found else set())

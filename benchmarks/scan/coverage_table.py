"""Make docs/coverage.md from tests/data/coverage.yaml: the items of two public lists that scan finds.

python benchmarks/scan/coverage_table.py > docs/coverage.md
"""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from graphsafe.config import Config
from graphsafe.rulebook.rulefile import expected_lines
from graphsafe.scan.api import scan_paths

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "coverage.yaml"
PAGE = """\
# Coverage

This page shows which entries of two public lists of hazards scan finds. Each entry with a rule code has two snippets:
scan finds the fault in the first, at its line, and reports nothing for the second. The snippets are in
tests/data/coverage.yaml, and tests/scan/test_coverage.py scans them. A remark says which part of an entry scan finds,
or why scan does not see it. `python benchmarks/scan/coverage_table.py` prints this page.

## NVIDIA's checklist

The source is [CUDA Graph Best Practice for PyTorch](https://docs.nvidia.com/dl-cuda-graph/latest/). Items 1 to 60 are
the bullets of its quick checklist, in their order; the other items are from its other pages. Items 37, 45 to 49, 84 to
90, 93 and 94 are left out: they are advice about how to work, or only a run can show them. {checklist}

## Reported bugs

These are the causes that 197 public bug reports of PyTorch, vLLM, SGLang and others have in common. Three of them are
reproduced [in full](systems.md). {reported}
"""
EXPECTED = re.compile(r"# expect: (GS\d+)")

HEAD = """\
import logging
import random

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F


"""
STEP = """\
class Step(nn.Module):
    def __init__(self, dim: int = 64):
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.randn(64, 64))
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.register_buffer("buf", torch.zeros(64))
        self.register_buffer("steps", torch.zeros(()))
        self.state = torch.zeros(64, 64, device="cuda")
        self.host = torch.ones(64)
        self.host_index = torch.tensor([1, 2])
        self.pinned = torch.ones(64).pin_memory()
        self.side = torch.cuda.Stream()
        self.event = torch.cuda.Event()
        self.generator = torch.Generator(device="cuda")
        self.random_state = torch.cuda.get_rng_state()
        self.count = 0
        self.cache = {}
        self.history = []
        self.gathered = [None]

    def forward(self, x: torch.Tensor, index: torch.LongTensor, n: int):
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a list, and the mistakes in its entry. There are none if the entry agrees with the scan."""

    item: str
    about: str
    bad: str | None
    good: str | None
    but: str | None
    reason: str | None

    @property
    def row(self) -> str:
        links = ", ".join(f"[{code}](rules/{code}.md)" for code in self.codes)
        seen = links or ("not seen" if self.reason else "no hazard")
        return f"| {self.item} | {self.about} | {seen} | {self.reason or self.but or ''} |"

    @property
    def codes(self) -> Sequence[str]:
        return sorted(set(EXPECTED.findall(self.bad or "")))

    def problems(self) -> Sequence[str]:
        told = []
        if self.bad is not None:
            source, found = scanned(self.bad)
            for code in self.codes:
                missing = expected_lines(code, source) - {line for line, other, _ in found if other == code}
                told += [f"{code} not found: {source.splitlines()[line - 1].strip()}" for line in sorted(missing)]
        if self.good is not None:
            source, found = scanned(self.good)
            loud = sorted((line, code) for line, code, level in found if level != "note" and code != "GS401")
            told += [f"{code} in the good code: {source.splitlines()[line - 1].strip()}" for line, code in loud]
        return told


def scanned(snippet: str) -> tuple[str, set[tuple[int, str, str]]]:
    """Return the file that a snippet becomes, and the line, code and level of each finding in it."""
    whole = re.search(r"^(def|class) ", snippet, re.M)
    source = HEAD + (snippet if whole else STEP + textwrap.indent(snippet + "return x\n", " " * 8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "snippet.py"
        path.write_text(source, encoding="utf-8")
        report = scan_paths([path], Config(root=path.parent))
    return source, {(found.location.line, found.code, found.level) for found in report.findings}


def entries() -> Mapping[str, Sequence[Entry]]:
    """Return the entries of each list."""
    lists: Mapping[str, Sequence[Mapping[str, Any]]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    empty = dict.fromkeys(("bad", "good", "but", "reason"))
    return {name: [Entry(**{**empty, **row, "item": str(row["item"])}) for row in rows] for name, rows in lists.items()}


def page() -> str:
    tables = {name: table(rows) for name, rows in entries().items()}
    return PAGE.format(**tables)


def table(rows: Sequence[Entry]) -> str:
    seen = sum(bool(row.codes) for row in rows)
    silent = sum(not row.codes and row.reason is None for row in rows)
    summary = f"Of {len(rows)}, scan sees {seen}" + (f"; {silent} are not hazards." if silent else ".")
    return "\n".join([summary, "", "| item | what | scan | remarks |", "|---|---|---|---|", *(row.row for row in rows)])


if __name__ == "__main__":
    print(page(), end="")

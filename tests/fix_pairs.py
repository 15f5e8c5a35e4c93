"""The pairs of tests/data/fixes.yaml as modules: a step before and after a fix."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_DATA = Path(__file__).parent / "data" / "fixes.yaml"
_HEAD = """\
import math

import torch
import torch.nn.functional as F
from torch import linalg, nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
"""


@dataclass(frozen=True, slots=True)
class Pair:
    fix: str
    title: str
    takes: tuple[str, ...]
    is_safe: bool
    cpu: str | None
    "Why the step cannot run on the CPU, or None if it can."
    none: str | None
    "Why there is no fix, or None if there is one."
    before: str
    "The text of a module with the class Step."
    after: str

    @property
    def name(self) -> str:
        return f"{self.fix}: {self.title}"


@cache
def pairs() -> tuple[Pair, ...]:
    data = yaml.safe_load(_DATA.read_text(encoding="utf-8"))
    return tuple(_pair(fix, item) for fix, items in data.items() if fix != "inputs" for item in items)


@cache
def input_expressions() -> Mapping[str, str]:
    expressions: Mapping[str, str] = yaml.safe_load(_DATA.read_text(encoding="utf-8"))["inputs"]
    return expressions


def inputs(pair: Pair, seed: int) -> list[Any]:
    """Return the arguments of a step, on the CPU. Another seed gives other arguments."""
    import torch

    torch.manual_seed(seed)
    return [eval(input_expressions()[name], {"torch": torch}) for name in pair.takes]


def step_class(text: str) -> Any:
    scope: dict[str, Any] = {}
    exec(compile(text, "<step>", "exec"), scope)
    return scope["Step"]


def factory(text: str, pair: Pair) -> str:
    """Return the text of a file with a `build(device)` for `graphsafe capture`."""
    made = ", ".join(f"{input_expressions()[name]}" for name in pair.takes)
    return f"{text}\n\ndef build(device):\n    return Step().to(device), tuple(a.to(device) for a in ({made},))\n"


def _pair(fix: str, item: dict[str, Any]) -> Pair:
    takes = tuple(item["takes"])
    setup = item.get("setup", "")
    return Pair(
        fix,
        item["title"],
        takes,
        not item.get("unsafe", False),
        item.get("cpu"),
        item.get("none"),
        _module(setup, takes, item["before"]),
        _module(item.get("after_setup", setup), takes, item["after"]),
    )


def _module(setup: str, takes: tuple[str, ...], body: str) -> str:
    signature = ", ".join(["self", *(f"{name}: torch.Tensor" for name in takes)])
    lines = [_HEAD + _indented(setup), f"    def forward({signature}):", _indented(body)]
    return "\n".join(lines)


def _indented(text: str) -> str:
    return textwrap.indent(text.rstrip("\n") + "\n" if text else "", " " * 8)

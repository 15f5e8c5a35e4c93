"""Values that no class and no call describes: an annotation, an operation or a use shows what they are."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

MODULE = """\
from typing import TypeAlias, TypedDict

import numpy as np
import torch
from torch import nn

Scores: TypeAlias = torch.Tensor
Ranks = Scores

class Batch(TypedDict):
    scores: Ranks

class Net(nn.Module):
    def __init__(self, source, scale):
        super().__init__()
        self.source = source
        self.scale = scale
        heads, tails = source.pairs.t()
        self.register_buffer("tails", tails)

    def forward(self, x: torch.Tensor, extra=None, batch: Batch = None):
{step}
"""


def module(step: str) -> str:
    """Return a module whose step consists of these statements."""
    return MODULE.format(step=textwrap.indent(textwrap.dedent(step), " " * 8))


@pytest.mark.parametrize(
    ("before", "line", "code"),
    [
        ("", "eye = torch.eye(3).type(x.type())", "GS304"),
        ("kind = x.type()", "eye = torch.eye(3).type(kind)", "GS304"),
        ("", "scale = torch.tensor(self.scale, device=x.device)", "GS301"),
        ("", "count = max(x.max() + 1, extra)", "GS102"),
        ("", "last = self.tails.max().item()", "GS101"),
        ("", "spread = self.source.dist(1).stddev.mean().item()", "GS101"),
        ("dist = torch.distributions.Normal(x, 1, validate_args=False)", "middle = dist.mean.sum().item()", "GS101"),
        ("", "best = batch['scores'].max().item()", "GS101"),
        ("", "kept = self.source.rows[x > 0]", "GS202"),
        ("rows = self.source.rows\nidx = torch.nonzero(torch.zeros(8))", "rows[idx] = x", "GS302"),
        ("if extra is None: extra = torch.zeros(8, device=x.device)", "last = float(extra[0])", "GS101"),
        ("extra = x.new_zeros(8) if extra is None else extra", "last = float(extra[0])", "GS101"),
        ("done = ~x", "kept = x[done]", "GS202"),
        ("is_last = torch.roll(x, 1)", "kept = x[is_last]", "GS202"),
        ("valid_mask = torch.roll(x, 1)", "x[valid_mask[:-1]] = x", "GS202"),
        ("", "total = x._values().sum().item()", "GS101"),
        ("", "close = self.source.last.dot(x).item()", "GS101"),
        ("", "kept = self.source.rows.sparse_mask(x).coalesce()", "GS201"),
        ("kinds = (np.ndarray, torch.Tensor)\nif not isinstance(x, kinds): return x", "top = x.max().item()", "GS101"),
        ("", "ranks = self.source.rank(x)[:, torch.arange(8)]", "GS302"),
        ("if not isinstance(extra, np.ndarray): return x", "extra = torch.as_tensor(extra, device=x.device)", "GS301"),
    ],
)
def test_use_shows_the_value(scan: Scan, before: str, line: str, code: str) -> None:
    assert scan(module(f"{before}\n{line}")) == [(code, line)]


@pytest.mark.parametrize(
    "step",
    [
        "kind = x.type(torch.float16).sum()\nsame = x.type(kind.type())",
        "eye = torch.eye(3, device=x.device).type(x.type())",
        "scale = torch.as_tensor(self.scale, device=x.device)",
        "scale = torch.tensor(self.scale)",
        "count = max(len(x), extra)",
        "rows = self.source.rows\nrows['x'] = x\nrows[3] = x\nrows[x.sum()] = x",
        "kept = self.source.rows[self.source.which]",
        "order = torch.roll(x, 1)\nkept = x[order]",
        "is_last = x.long()\nkept = x[is_last] + x[~is_last]",
        "mask = torch.roll(x, 1)\nkept = x[mask.argmax(1)]",
        "near = self.source.last.dot(torch.zeros(8))\nif near > 0: x = x + 1",
        "near = self.source.dot(len(x))\nif near > 0: x = x + 1",
        "ranks = self.source.rank(x)[torch.arange(8)]",
        "ranks = self.source.rank(3)[:, torch.arange(8)]",
        "kinds = (np.ndarray, torch.Tensor)\nif not isinstance(x, kinds): top = x.max().item()",
        "if x._nnz() > 8:\n    x = x + 1",
        "if extra is None: extra = 8\nlast = float(extra)",
        "if extra is None: extra = torch.zeros(8)\nlast = float(extra[0])",
        "rows = x if extra is None else x[:extra]",
    ],
)
def test_nothing_is_guessed(scan: Scan, step: str) -> None:
    assert scan(module(step)) == []


def test_an_array_beside_a_dict(scan: Scan) -> None:
    text = """\
    import numpy as np

    class Net(nn.Module):
        def forward(self, x: torch.Tensor, rows: np.ndarray | dict[str, np.ndarray]):
            if isinstance(rows, np.ndarray):
                return torch.as_tensor(rows, device=x.device) + x
            return {key: len(row) for key, row in rows.items()}
    """
    assert [code for code, _ in scan(text)] == ["GS301"]


@pytest.mark.parametrize(
    ("shape", "codes"),
    [("view(-1)", []), ("view(-1, 4)", ["GS302"]), ("reshape(-1)", []), ("expand(2, 8)", ["GS302"]), ("repeat(2)", [])],
)
def test_sizes_tell_how_many_dimensions_there_are(scan: Scan, shape: str, codes: list[str]) -> None:
    """A number of the host is no copy as an index, a row is."""
    loop = f"for row in torch.zeros(8, dtype=torch.long).{shape}:\n    x = x + x[row]"
    assert [code for code, _ in scan(module(loop))] == codes


def test_a_list_of_tensors_does_not_decide_where_a_new_tensor_lies(scan: Scan) -> None:
    """`torch.tensor([a, b])` reads each element and lies on the host; `torch.tensor(a)` lies beside `a`."""
    ends = "ends = torch.tensor([row[0] for row in x])"
    found = scan(module(f"{ends}\nreturn [row + int(end) for row, end in zip(x, ends)]"))
    assert found == [("GS101", ends)]
    found = scan(module("end = torch.tensor(x[0])\nreturn x + int(end)"))
    assert ("GS101", "return x + int(end)") in found


PREDICTOR = """\
class Predictor:
    def __init__(self, model):
        self.model = model

    def __call__(self, image):
        with torch.no_grad():
            {first}
            if image.sum() > 0:
                image = image.clone()
            return self.model(image * 2)
"""


@pytest.mark.parametrize(("first", "codes"), [("image = image[:, ::-1]", []), ("image = image[:, :3]", ["GS102"])])
def test_a_parameter_that_is_reversed_is_no_tensor(scan: Scan, first: str, codes: list[str]) -> None:
    assert [code for code, _ in scan(PREDICTOR.format(first=first))] == codes


def test_a_chained_comparison_names_the_value_on_the_device(tmp_path: Path) -> None:
    file = tmp_path / "step.py"
    file.write_text(module("if 0 <= x.sum() <= 1: x = x + 1"), encoding="utf-8")
    [found] = [one for one in scan_paths([file], Config(root=tmp_path)).findings if one.code == "GS102"]
    assert "device tensor" in found.message

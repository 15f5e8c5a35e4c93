"""No file, however strange, stops a scan; what cannot be followed is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.report.model import Report
from graphsafe.scan.api import scan_paths
from graphsafe.scan.models import tensors

HEAD = "import torch\nfrom torch import nn\n\n\nclass {name}(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
READ = HEAD.format(name="Fine") + "        return x * x.sum().item()\n"


def scan(folder: Path, **files: str) -> Report:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return scan_paths([folder], Config(root=folder))


def found(report: Report) -> list[tuple[str, str]]:
    return [(Path(finding.location.path).stem, finding.code) for finding in report.findings]


@pytest.mark.slow
@pytest.mark.child
def test_a_function_of_fifty_thousand_lines_is_read(tmp_path: Path) -> None:
    body = "".join(f"        x = x + {number}\n" for number in range(50_000))
    report = scan(tmp_path, long=HEAD.format(name="Long") + body + "        return x.item()\n", fine=READ)
    assert found(report) == [("fine", "GS101"), ("long", "GS101")]
    assert report.limits == ()


@pytest.mark.parametrize(
    "deep",
    [
        "        return " + "(" * 500 + "x" + ")" * 500 + "\n",
        "        return " + "-" * 500 + "x\n",
        "        return " + " + ".join(["x"] * 5_000) + "\n",
        "        return x" + ".float()" * 3_000 + "\n",
        "".join(f"{' ' * (8 + depth)}if x is not None:\n" for depth in range(95)) + " " * 120 + "return x\n",
    ],
    ids=["parentheses", "signs", "sums", "calls", "blocks"],
)
def test_what_is_nested_deeply_costs_only_itself(tmp_path: Path, deep: str) -> None:
    report = scan(tmp_path, deep=HEAD.format(name="Deep") + deep, fine=READ)
    assert ("fine", "GS101") in found(report)


@pytest.mark.skipif(not tensors.__file__.endswith(".py"), reason="machine code does not look its functions up")
def test_an_error_of_graphsafe_costs_one_root_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    method = tensors.method

    def broken(frame, node, tensor, name, arguments):  # type: ignore[no-untyped-def]
        if name == "sigmoid":
            raise KeyError("no such thing")
        return method(frame, node, tensor, name, arguments)

    monkeypatch.setattr(tensors, "method", broken)
    report = scan(tmp_path, odd=HEAD.format(name="Odd") + "        return x.sigmoid()\n", fine=READ)
    assert found(report) == [("fine", "GS101")]
    (limit,) = report.limits
    assert limit.kind == "internal-error"
    assert limit.what.endswith("odd.py::Odd.forward")
    assert "KeyError" in limit.why


@pytest.mark.parametrize(
    "text",
    [
        "class A(A):\n    def forward(self, x):\n        return x.item()\n",
        "import torch\nclass A(torch.nn.Module,B):\n    def forward(*args):\n  return args[1]\nclass B(A): pass\n",
        "from odd import *\nfrom .odd import forward\nforward = forward\n",
        "def forward():\n    forward()\n",
        HEAD.format(name="Self") + "        return self(self.forward(x))\n",
        HEAD.format(name="Names")
        + "        x = [x]\n        for _ in x:\n            x = [x, x, [x]]\n        return x\n",
        "",
        "\f\n",
        "# -*- coding: latin-1 -*-\n",
    ],
)
def test_strange_code_is_no_error(tmp_path: Path, text: str) -> None:
    report = scan(tmp_path, odd=text, fine=READ)
    assert ("fine", "GS101") in found(report)
    assert not [limit for limit in report.limits if limit.kind == "internal-error"]

"""Reads of what a call inside a capture returns, if the code of the called function is not known."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

CAPTURE = """
import torch
from torch import nn


class Encoder(nn.Module):
    pass


def record({parameters}):
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    model(x)
    {block}:
        {read}
    return graph
"""
BLOCK = "with torch.cuda.graph(graph, stream=stream)"
UNKNOWN, MODULE = "model, x, count=3", "model: nn.Module, x: torch.Tensor, count: int = 3"


def found(folder: Path, read: str, parameters: str, block: str = BLOCK) -> tuple[str, str] | None:
    source = CAPTURE.format(parameters=parameters, block=block, read=textwrap.indent(read, " " * 8).strip())
    (folder / "capture.py").write_text(source, encoding="utf-8")
    findings = [
        f
        for f in scan_paths([folder], Config(root=folder), confidence="possible").findings
        if f.code.startswith(("GS1", "GS2"))
    ]
    assert len(findings) < 2
    return (findings[0].code, findings[0].confidence) if findings else None


READS = {
    "n = int(model(x))": "GS101",
    "n = model(x).tolist()": "GS101",
    "n = model(x).sum().item()": "GS101",
    "n = model(x).argmax(-1).tolist()": "GS101",
    "if model(x).sum() > 0:\n    pass": "GS102",
    "if model(x) > 0:\n    pass": "GS102",
    "n = model(x).cpu()": "GS103",
}


@pytest.mark.parametrize("read", READS)
def test_a_read_of_what_an_unknown_callable_returns_is_possible_at_least(tmp_path: Path, read: str) -> None:
    one = found(tmp_path, read, UNKNOWN)
    assert one is not None and one[0] == READS[read]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("parameters", [MODULE, MODULE.replace("nn.Module", "Encoder")])
def test_a_module_returns_device_tensors_for_device_tensors(tmp_path: Path, read: str, parameters: str) -> None:
    assert found(tmp_path, read, parameters) == (READS[read], "likely")


@pytest.mark.parametrize(("read", "level"), [("logits.argmax().item()", "likely"), ("count.item()", "likely")])
def test_an_object_of_outputs_may_hold_device_tensors(tmp_path: Path, read: str, level: str) -> None:
    assert found(tmp_path, f"n = model(x).{read}", MODULE) == ("GS101", level)


@pytest.mark.parametrize(
    "read, parameters",
    [
        ("n = int(model(count))", "model, x, count: int = 3"),
        ("n = int(model(sizes_cpu))", "model, x, sizes_cpu=None"),
        ("n = int(model(torch.zeros(4)))", "model: nn.Module, x"),
        ("n = len(model(x))", MODULE),
        ("y = model(x)", UNKNOWN),
        ("if model(x) is None:\n    pass", UNKNOWN),
    ],
)
def test_host_arguments_and_other_uses(tmp_path: Path, read: str, parameters: str) -> None:
    assert found(tmp_path, read, parameters) is None


@pytest.mark.parametrize("read", ["n = int(model(x))", "n = model(x).tolist()", "if model(x) > 0:\n    pass"])
def test_outside_captures_an_unknown_result_is_no_tensor(tmp_path: Path, read: str) -> None:
    assert found(tmp_path, read, UNKNOWN, "with torch.no_grad()") is None

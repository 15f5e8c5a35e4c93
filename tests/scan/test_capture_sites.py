"""Helpers that capture a function which they are given: whoever calls them says what the graph holds."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

HELPER = """
import torch


def record(body, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        body()
    return graph
"""
RUNNER = """
class Runner:
    def {method}(self):
        self.window = torch.zeros(4, device="cuda")
        self.graph = {call}(self._guess, torch.cuda.Stream())

    def _guess(self):
        if self.window.sum() > 0:
            self.window.zero_()
"""


def found(folder: Path) -> list[tuple[str, str]]:
    report = scan_paths([folder], Config(root=folder))
    lines = (folder / "runner.py").read_text(encoding="utf-8").splitlines()
    return [(one.code, lines[one.location.line - 1].strip()) for one in report.findings if one.level == "error"]


@pytest.mark.parametrize("method", ["__init__", "prepare"])
def test_a_method_that_is_handed_to_a_capture_is_hot(tmp_path: Path, method: str) -> None:
    (tmp_path / "runner.py").write_text(HELPER + RUNNER.format(method=method, call="record"), encoding="utf-8")
    assert found(tmp_path) == [("GS102", "if self.window.sum() > 0:")]


def test_a_helper_that_calls_its_argument_outside_of_the_capture_makes_nothing_hot(tmp_path: Path) -> None:
    helper = textwrap.dedent(
        """
        import torch


        def record(report, stream):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                pass
            report()
            return graph
        """
    )
    (tmp_path / "runner.py").write_text(helper + RUNNER.format(method="__init__", call="record"), encoding="utf-8")
    assert found(tmp_path) == []

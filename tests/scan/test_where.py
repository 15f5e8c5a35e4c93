"""Where a value is and what it may be, when only a class, another module or a caller says so."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

Scan = Callable[[str], list[tuple[str, str]]]


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """Scan one source as a project of its own: code and text of the line of each finding above note, GS4xx aside."""

    def run(source: str, name: str = "step.py") -> list[tuple[str, str]]:
        text = "import torch\nfrom torch import nn\n\n" + textwrap.dedent(source)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        lines = text.splitlines()
        return [
            (f.code, lines[f.location.line - 1].strip())
            for f in scan_paths([path], Config(root=tmp_path)).findings
            if f.level != "note" and not f.code.startswith("GS4")
        ]

    return run


def test_a_field_that_starts_as_none_may_be_filled(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass
        from engine import Chunks

        @dataclass
        class Metadata:
            lengths: torch.Tensor
            chunks: Chunks | None = None

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, metadata: Metadata):
                if metadata.chunks is not None:
                    x = x[: metadata.lengths.max().item()]
                return x
        """
    assert scan(source) == [("GS101", "x = x[: metadata.lengths.max().item()]")]


def test_a_copy_from_the_host_into_a_tensor_that_may_be_on_the_device(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass

        @dataclass
        class State:
            table: torch.Tensor
            table_cpu: torch.Tensor

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, state: State, sizes: list[int]):
                fresh = torch.tensor(sizes) * 2
                state.table.copy_(fresh)
                state.table_cpu.copy_(fresh)
                return x
        """
    assert scan(source) == [("GS304", "state.table.copy_(fresh)")]


def test_a_flag_that_a_module_sets_in_many_places_is_not_known(scan: Scan) -> None:
    source = """\
        from importlib.util import find_spec

        FAST = find_spec("fast") is not None
        if FAST and find_spec("a"):
            FAST = False
        if FAST and find_spec("b"):
            FAST = False
        if FAST and find_spec("c"):
            FAST = False
        if FAST and find_spec("d"):
            FAST = False

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor):
                return x[: x.max().item()] if FAST else x
        """
    assert scan(source) == [("GS101", "return x[: x.max().item()] if FAST else x")]


def test_a_library_function_hands_on_the_tensor_or_the_number_it_is_given(scan: Scan) -> None:
    source = """\
        import triton

        class Layer(nn.Module):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor):
                if triton.cdiv(0, 16):
                    x = x + 1
                counts = triton.cdiv(lengths, 16).tolist()
                return [x[:n] for n in counts], x[: triton.cdiv(x.shape[0], 2)]
        """
    assert scan(source) == [("GS101", "counts = triton.cdiv(lengths, 16).tolist()")]

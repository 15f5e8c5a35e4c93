"""Custom autograd functions: sizes among their arguments, and what `ctx` keeps."""

from __future__ import annotations

import textwrap
from pathlib import Path

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths


def codes(tmp_path: Path, source: str) -> list[tuple[str, int]]:
    (tmp_path / "step.py").write_text("import torch\n\n" + textwrap.dedent(source), encoding="utf-8")
    findings = scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
    return [(f.code, f.location.line) for f in findings if f.level != "note"]


def test_sizes_are_numbers(tmp_path: Path) -> None:
    source = """\
        class Mix(torch.autograd.Function):
            @staticmethod
            def forward(ctx, B, T, x):
                ctx.B, ctx.T = B, T
                ctx.save_for_backward(x)
                return torch.empty((B, T), device=x.device) if B > 1 else x

            @staticmethod
            def backward(ctx, grad):
                B = ctx.B
                T = ctx.T
                return None, None, torch.empty((B, T), device=grad.device)
        """
    assert codes(tmp_path, source) == []


def test_saved_tensors_are_tensors(tmp_path: Path) -> None:
    source = """\
        class Mix(torch.autograd.Function):
            @staticmethod
            def backward(ctx, grad):
                x, mask = ctx.saved_tensors
                if mask.any():
                    grad = grad * x
                return grad
        """
    assert codes(tmp_path, source) == [("GS102", 7)]


def test_an_annotation_that_only_names_tensors_of_one_form(tmp_path: Path) -> None:
    source = """\
        class Gramian(torch.Tensor):
            "A square matrix."

        class Solve(torch.nn.Module):
            def forward(self, gramian: Gramian) -> torch.Tensor:
                return gramian.to(device=torch.device("cpu"))
        """
    assert codes(tmp_path, source) == [("GS103", 8)]

"""`is_compiling()` keeps nothing out of a plain capture; `is_current_stream_capturing()` does."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from graphsafe.config import load_config
from graphsafe.report.model import Finding
from graphsafe.scan.api import scan_paths

HEAD = """\
import torch
import torch._dynamo
from torch import nn
from torch.compiler import is_compiling

"""


def scan(folder: Path, source: str, configuration: str = "", **files: str) -> list[Finding]:
    for name, text in {"step": HEAD + dedent(source), **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "graphsafe.toml").write_text(configuration, encoding="utf-8")
    report = scan_paths([folder], load_config(folder))
    assert not [limit for limit in report.limits if limit.kind == "internal-error"]
    return list(report.findings)


def step(body: str) -> str:
    return "class Step(nn.Module):\n    def forward(self, x: torch.Tensor):\n" + indent(dedent(body), " " * 8)


def levels(findings: list[Finding]) -> list[str]:
    return [finding.level for finding in findings]


COMPILED = 'hot-paths = [{ path = "step:Step.forward", compiled = true }]\n'


@pytest.mark.parametrize(
    ("test", "plain", "compiled"),
    [
        ("not torch.compiler.is_compiling()", "error", "note"),
        ("not torch._dynamo.is_compiling()", "error", "note"),
        ("not is_compiling()", "error", "note"),
        ("torch.compiler.is_compiling()", "note", "error"),
        ("not torch.cuda.is_current_stream_capturing()", "note", "note"),
        ("not torch.cuda.is_available() or not torch.cuda.is_current_stream_capturing()", "note", "note"),
        ("not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())", "note", "note"),
        ("not x.is_cuda or not torch.cuda.is_current_stream_capturing()", "note", "note"),
        ("x.is_cuda and torch.cuda.is_current_stream_capturing()", "error", "error"),
        ("torch.cuda.is_available()", "error", "error"),
        ("not torch.cuda.is_available()", "note", "note"),
        ("torch.cuda.is_current_stream_capturing()", "error", "error"),
        ("not torch.accelerator.current_stream().is_capturing()", "note", "note"),
        ("not torch.jit.is_tracing()", "error", "error"),
        ("torch.jit.is_tracing()", "note", "note"),
        ("torchvision._is_tracing()", "note", "note"),
        ("torch.compiler.is_exporting()", "note", "note"),
        ("not (is_compiling() or torch.cuda.is_current_stream_capturing())", "note", "note"),
        ("not is_compiling() and not torch.cuda.is_current_stream_capturing()", "note", "note"),
        ("not is_compiling() or not torch.cuda.is_current_stream_capturing()", "error", "note"),
        ("not is_compiling() and x.shape[0] > 1", "error", "note"),
        ("is_compiling() and x.shape[0] > 1", "note", "error"),
    ],
)
def test_what_a_test_keeps_out_of_a_plain_and_of_a_compiled_capture(
    tmp_path: Path, test: str, plain: str, compiled: str
) -> None:
    source = step(f"if {test}:\n    print(x.item())\nreturn x")
    assert set(levels(scan(tmp_path, source))) == {plain}
    assert set(levels(scan(tmp_path, source, COMPILED))) == {compiled}


def test_an_error_behind_such_a_test_speaks_of_torch_compile(tmp_path: Path) -> None:
    [finding] = scan(tmp_path, step("if not is_compiling():\n    x = x * x.sum().item()\nreturn x"))
    assert finding.message.endswith(
        "; `if not is_compiling()` keeps it out of torch.compile, not out of a plain capture"
    )
    assert finding.data["compile_test"] == "`if not is_compiling()`"
    [finding] = scan(tmp_path, step("return x * x.sum().item()"))
    assert "compile" not in finding.message and "compile_test" not in finding.data


@pytest.mark.parametrize(
    "body",
    [
        "if is_compiling():\n    return x\nreturn x * x.sum().item()",
        "try:\n    if is_compiling():\n        return x\nfinally:\n    pass\nreturn x * x.sum().item()",
        "scale = 1.0 if is_compiling() else x.sum().item()\nreturn x * scale",
        "compiling = is_compiling()\nif not compiling:\n    x = x * x.sum().item()\nreturn x",
        "for _ in range(3):\n    if is_compiling():\n        continue\n    x = x * x.sum().item()\nreturn x",
        "def scaled():\n    return x * x.sum().item()\nreturn x if is_compiling() else scaled()",
        "return x if is_compiling() else self.scaled(x)",
    ],
    ids=["early return", "try", "conditional", "local", "loop", "closure", "method"],
)
def test_all_ways_to_ask_are_followed(tmp_path: Path, body: str) -> None:
    source = step(body) + "\n\n    def scaled(self, x):\n        return x * x.sum().item()\n"
    assert levels(scan(tmp_path, source)) == ["error"]
    assert levels(scan(tmp_path, source, COMPILED)) == ["note"]


@pytest.mark.parametrize(
    "body",
    [
        "torch.cuda.is_current_stream_capturing() or x.sum().item()\nreturn x",
        "while not torch.cuda.is_current_stream_capturing():\n    print(x.sum().item())\n    break\nreturn x",
        "if torch.version.hip:\n    x = x * x.sum().item()\nreturn x",
        "if torch.version.hip is not None:\n    x = x * x.sum().item()\nreturn x",
        "if torch.version.hip != None:\n    x = x * x.sum().item()\nreturn x",
        "return x if torch.version.hip is None else x * x.sum().item()",
        "if ON_HIP:\n    x = x * x.sum().item()\nreturn x",
    ],
)
def test_no_capture_on_cuda_comes_there(tmp_path: Path, body: str) -> None:
    source = "ON_HIP = hasattr(torch.version, 'hip') and torch.version.hip is not None\n\n" + step(body)
    assert set(levels(scan(tmp_path, source))) == {"note"}


@pytest.mark.parametrize(
    "test", ["torch.version.hip is None", "not torch.version.hip", "torch.version.cuda is not None"]
)
def test_a_capture_on_cuda_comes_there(tmp_path: Path, test: str) -> None:
    assert levels(scan(tmp_path, step(f"if {test}:\n    x = x * x.sum().item()\nreturn x"))) == ["error"]


def test_no_capture_takes_what_asks_for_both(tmp_path: Path) -> None:
    source = step("if is_compiling():\n    if not is_compiling():\n        print(x.item())\nreturn x")
    assert set(levels(scan(tmp_path, source))) == {"note"}
    assert set(levels(scan(tmp_path, source, COMPILED))) == {"note"}


HELPERS = """\
import torch


def is_torchdynamo_compiling() -> bool:
    try:
        import torch

        return torch.compiler.is_compiling()
    except Exception:
        return False


def is_cuda_stream_capturing() -> bool:
    try:
        import torch

        return torch.cuda.is_current_stream_capturing()
    except Exception:
        return False


def is_tracing(tensor=None) -> bool:
    \"\"\"Whether anything traces.\"\"\"
    tracing = is_torchdynamo_compiling() or torch.jit.is_tracing() or is_cuda_stream_capturing()
    if tensor is not None:
        tracing |= isinstance(tensor, torch.fx.Proxy)
    return tracing


def only_compiling() -> bool:
    tracing = is_torchdynamo_compiling()
    tracing |= torch.jit.is_tracing()
    return tracing


def may_check():
    return not is_torchdynamo_compiling() and not is_cuda_stream_capturing()
"""


@pytest.mark.parametrize(
    ("test", "plain", "compiled"),
    [
        ("not helpers.is_tracing(x)", "note", "note"),
        ("not is_tracing(x)", "note", "note"),
        ("not is_tracing()", "note", "note"),
        ("not only_compiling()", "error", "note"),
        ("may_check()", "note", "note"),
        ("not is_torchdynamo_compiling()", "error", "note"),
        ("not is_cuda_stream_capturing()", "note", "note"),
    ],
)
def test_helpers_that_combine_several_are_read(tmp_path: Path, test: str, plain: str, compiled: str) -> None:
    head = "import helpers\nfrom helpers import *\n"
    source = head + step(f"if {test}:\n    print(x.item())\nreturn x")
    assert set(levels(scan(tmp_path, source, helpers=HELPERS))) == {plain}
    assert set(levels(scan(tmp_path, source, COMPILED, helpers=HELPERS))) == {compiled}


@pytest.mark.parametrize(
    "decorator", ["torch.compile", 'torch.compile(mode="reduce-overhead")', "support_torch_compile"]
)
def test_what_is_compiled_by_decorator_needs_no_configuration(tmp_path: Path, decorator: str) -> None:
    source = f"""\
    from elsewhere import support_torch_compile

    @{decorator}
    def scaled(x: torch.Tensor):
        if not is_compiling():
            x = x * x.sum().item()
        return checked(x)

    def checked(x):
        if not is_compiling():
            print(x.item())
        return x

    class Step(nn.Module):
        def forward(self, x: torch.Tensor):
            return scaled(x)
    """
    assert set(levels(scan(tmp_path, source))) == {"note"}
    # Called without it, too, the helper is in a plain capture.
    called = source.replace("return scaled(x)", "return checked(scaled(x))")
    assert {f.location.function: f.level for f in scan(tmp_path, called)} == {"scaled": "note", "checked": "error"}


def test_a_target_may_be_compiled(tmp_path: Path) -> None:
    source = step("if not is_compiling():\n    x = x * x.sum().item()\nreturn x")
    source += "\n\ndef build(device):\n    return Step(), (torch.ones(4, device=device),)\n"
    target = '[targets.decode]\nfactory = "step.py:build"\n'
    assert levels(scan(tmp_path, source, target)) == ["error"]
    assert levels(scan(tmp_path, source, target + "compiled = true\n")) == ["note"]


def test_a_module_given_to_a_torch_compile_that_captures_is_compiled(tmp_path: Path) -> None:
    source = step("if not is_compiling():\n    x = x * x.sum().item()\nreturn x")
    source += "\n\ndef build(device):\n    return torch.compile(Step(), mode={mode}), (torch.ones(4, device=device),)\n"
    target = '[targets.decode]\nfactory = "step.py:build"\n'
    assert levels(scan(tmp_path, source.format(mode='"reduce-overhead"'), target)) == ["note"]
    assert levels(scan(tmp_path, source.format(mode="None"), target)) == ["error"]


def test_state_that_only_compiled_steps_leave_alone_changes_in_a_plain_capture(tmp_path: Path) -> None:
    source = """\
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not is_compiling():
                self.count += 1
            return x * self.count
    """
    assert [(f.code, f.level) for f in scan(tmp_path, source)] == [("GS702", "error")]
    assert [(f.code, f.level) for f in scan(tmp_path, source, COMPILED)] == [("GS702", "note")]

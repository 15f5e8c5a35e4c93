"""Functions that test the platform, and their results on a machine with CUDA graphs. The functions are recognised by
their names."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from graphsafe.scan.domain.frozen import replace
from graphsafe.scan.domain.values import ON_CUDA, Number, number
from graphsafe.scan.execution.frame import Frame
from graphsafe.scan.models import torch_version
from graphsafe.scan.symbols.index import dotted

OTHER_PLATFORM = re.compile(
    r"(^|\.)_?is_(torch_)?(npu|xpu|hpu|tpu|mps|musa|xla|cpu)(_available)?$|^torch\.(xpu|mps|npu|hpu)\.is_available$"
)
"Matches functions that ask whether the code runs on hardware without CUDA graphs."
OWN_PLATFORM = re.compile(r"(^|\.)_?is_(cuda|cuda_alike|nvidia)(_available)?$")
"Matches functions that ask whether the code runs on CUDA."
NEXT_PLATFORM = re.compile(r"(^|\.)_?is_(rocm|hip|amd)(_available)?$")
"""Matches functions that ask whether the code runs on AMD GPUs. These GPUs support graphs too, but the scan is about
CUDA."""
OTHER_DEVICES = frozenset(("mps", "xpu", "npu", "hpu", "xla", "musa", "privateuseone", "directml"))
'Names of devices without CUDA graphs, as in `"mps" in str(device)`.'
OTHER_PACKAGES = frozenset("aiter habana_frameworks intel_extension_for_pytorch torch_musa torch_npu torch_xla".split())
"Packages that are installed only on machines with other GPUs or accelerators."
_AT_TOP = re.compile(rf"^(?:import|from) ({'|'.join(sorted(OTHER_PACKAGES))})\b", re.M)
"Matches an import of such a package that runs whenever the module is imported, because it is not indented."
AMD_NAME = re.compile(
    r"(?<![^_.])(rocm|forward_hip|aiter(?=_[a-z])|(?<=[a-z]_)aiter)(?![^_.])|(ROCM|ROCm|Rocm|Aiter)(?![a-z])"
)
"""Matches words in the name of a module, class or function that is for AMD GPUs.

`aiter` alone does not match, because Python has a function with this name.
"""
_AMD_MODULE = re.compile(rf"{AMD_NAME.pattern}|(?<=[a-z0-9]_)hip(?![^_.])")
"""Matches the words of AMD_NAME in the name of a module, and `hip` after another word, as in `fp8_hip` or
`moe_hip_kernels`.

In functions, a hip is often the joint (`left_hip`). At the beginning of a name it may be another word (HiP attention).
"""
_ON_ROCM = replace(ON_CUDA, const=False)
NO_VERSION = Number(None, overridable_by="platform", type="str")
"The ROCm version of PyTorch: None in a build for CUDA, and a string in a build for another platform."
PINNABLE = re.compile(r"(^|\.)_?is_pin(ned)?_memory_(available|supported)$")
"Matches functions that ask whether host memory can be pinned. This is possible on every machine with CUDA graphs."


def answered(name: str, arguments: bool) -> Number | None:
    """Return the result of a function, judging by its name, or None if the name does not show the result."""
    if PINNABLE.search(name):
        return number(True)
    return None if arguments else _answer(name)


def tested(frame: Frame, test: ast.expr) -> Number | None:
    """Return the result of a test such as `is_npu()`, the global `_is_xpu` or `platform.is_cuda()`, or None."""
    name = _asked(frame, test)
    return None if name is None else _answer(name)


def imported(frame: Frame, node: ast.Import | ast.ImportFrom) -> str | None:
    """Return the reason why the lines after an import do not run on CUDA, or None.

    An import inside `try` gives no reason, because it only checks whether the package exists.
    """
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    package = next((name for name in names if name.partition(".")[0] in OTHER_PACKAGES), None)
    return None if package is None or frame.tries else _import_of(package)


def imported_at_top(frame: Frame) -> list[str]:
    """Return the guard for the functions of a module that cannot be imported on CUDA machines, as a list of at most one
    guard."""
    return [_import_of(package) for package in frame.project.files.search(frame.path, _AT_TOP)[:1]]


def _import_of(package: str) -> str:
    return f"the import of `{package}`, which is for other accelerators"


@lru_cache(maxsize=4096)
def named_for_amd(module: str, function: str) -> tuple[str, ...]:
    """Return the guard for a function whose name, or whose module's name, shows that it is for AMD GPUs. For any other
    function, return an empty tuple."""
    named = function if AMD_NAME.search(function) else module if _AMD_MODULE.search(module) else None
    return () if named is None else (f"the name `{named}`, which is for AMD's cards",)


@lru_cache(maxsize=4096)
def _answer(name: str) -> Number | None:
    if OTHER_PLATFORM.search(name):
        return number(False)
    if (is_new := torch_version.named(name)) is not None:
        return is_new
    if NEXT_PLATFORM.search(name):
        return _ON_ROCM
    return ON_CUDA if OWN_PLATFORM.search(name) else None


def _asked(frame: Frame, test: ast.expr) -> str | None:
    """Return the name of the function or global that a condition tests."""
    if isinstance(test, ast.Call):
        return None if test.args else dotted(test.func)
    return test.id if isinstance(test, ast.Name) and test.id not in frame.env else None

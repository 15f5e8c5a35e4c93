"""The scripts of benchmarks/, which are no package, as modules for the tests of what they measure."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def benchmark(path: str) -> ModuleType:
    """The script benchmarks/PATH.py as a module."""
    name = path.rpartition("/")[2]
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{path}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up there.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

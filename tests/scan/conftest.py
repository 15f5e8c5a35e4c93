"""One source scanned as a project of its own."""

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

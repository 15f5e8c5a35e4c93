"""State that a step changes only for a while is no state between steps: at the end, it has its old value again."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths


def found(tmp_path: Path, source: str) -> list[tuple[str, str]]:
    """Code and line of each finding above note, allocations aside."""
    text = "import contextlib\nimport torch\nfrom torch import nn\n\n" + textwrap.dedent(source)
    (tmp_path / "step.py").write_text(text, encoding="utf-8")
    lines = text.splitlines()
    return [
        (f.code, lines[f.location.line - 1].strip())
        for f in scan_paths([tmp_path / "step.py"], Config(root=tmp_path)).findings
        if f.level != "note" and f.code != "GS401"
    ]


def module(step: str, more: str = "") -> str:
    return "\n".join(
        [
            "_LEVEL = 1",
            textwrap.dedent(more),
            "class Lift(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.up = nn.Linear(4, 4)",
            "        self.floor, self.gain, self.kept = 0, 1.0, None",
            "    def forward(self, x: torch.Tensor, far: bool = False):",
            textwrap.indent(textwrap.dedent(step), " " * 8),
        ]
    )


GAIN = """
class Gain:
    def __init__(self, owner):
        self.owner = owner
    def __enter__(self):
        {enter}
        return self
    def __exit__(self, *raised):
        {leave}
"""
USE = "with Gain(self):\n    x = self.up(x) * self.gain\nreturn x"


@pytest.mark.parametrize(
    ("step", "more", "expected"),
    [
        ("self.floor += 1\ny = self.up(x) * self.floor\nself.floor -= 1\nreturn y", "", []),
        ("self.floor += 1\ntry:\n    return self.up(x) * self.floor\nfinally:\n    self.floor -= 1", "", []),
        ("old, self.gain = self.gain, 0.5\ntry:\n    return x * self.gain\nfinally:\n    self.gain = old", "", []),
        # one way through the step leaves the number changed
        (
            "self.floor += 1\nif far:\n    return x * self.floor\nself.floor -= 1\nreturn x * self.floor",
            "",
            ["self.floor += 1", "self.floor -= 1"],
        ),
        (
            "if far:\n    self.floor += 1\ntry:\n    return x * self.floor\nfinally:\n    self.floor -= 1",
            "",
            ["self.floor += 1", "self.floor -= 1"],
        ),
        (
            "self.floor += 2\ny = x * self.floor\nself.floor -= 1\nreturn y",
            "",
            ["self.floor += 2", "self.floor -= 1"],
        ),
        (
            "for _ in range(2):\n    self.floor += 1\n    x = x * self.floor\nself.floor -= 1\nreturn x",
            "",
            ["self.floor += 1", "self.floor -= 1"],
        ),
        # the value that comes back is not the old one
        (
            "try:\n    self.gain = self.gain * 0.5\n    old = self.gain\n    return x * self.gain\n"
            "finally:\n    self.gain = old",
            "",
            ["self.gain = self.gain * 0.5"],
        ),
        (
            USE,
            GAIN.format(enter="self.old, self.owner.gain = self.owner.gain, 0.5", leave="self.owner.gain = self.old"),
            [],
        ),
        (USE, GAIN.format(enter="self.owner.gain += 1", leave="self.owner.gain -= 1"), []),
        (
            USE,
            GAIN.format(enter="self.owner.gain += 1", leave="if raised[0]:\n            self.owner.gain -= 1"),
            ["self.owner.gain += 1"],
        ),
        (
            "with level():\n    x = x * _LEVEL\nreturn x",
            """
            class level:
                def __enter__(self):
                    global _LEVEL
                    self.before, _LEVEL = _LEVEL, 3
                def __exit__(self, *raised):
                    global _LEVEL
                    _LEVEL = self.before
            """,
            [],
        ),
    ],
)
def test_a_change_for_a_while(tmp_path: Path, step: str, more: str, expected: list[str]) -> None:
    assert [line for _, line in found(tmp_path, module(step, more))] == expected

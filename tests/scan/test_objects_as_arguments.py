"""Objects that arrive as arguments: only one that keeps its memory, like a cache, outlives the step."""

from __future__ import annotations

import pytest

from tests.scan.conftest import Scan

RING = """
class Ring{base}:
    def __init__(self, rows, width):
        {memory}
        self.row = 0

    def put(self, value):
        self.rows[self.row] = value
        self.row += 1
        return self.rows


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x{argument}):
        {made}
        return ring.put(self.up(x)).sum(0)
"""
MAKES = 'self.rows = torch.zeros(rows, width, device="cuda")'


def ring(base: str = "", memory: str = MAKES, argument: str = ", ring: Ring", made: str = "pass") -> str:
    return RING.format(base=base, memory=memory, argument=argument, made=made)


@pytest.mark.parametrize(
    "source",
    [
        ring(),
        ring(argument=", ring: Ring | None = None", made="assert ring is not None"),
        ring("(nn.Module)", 'super().__init__(); self.register_buffer("rows", torch.zeros(rows, width))'),
    ],
)
def test_the_position_of_a_cache_that_arrives_as_an_argument(scan: Scan, source: str) -> None:
    assert scan(source) == [("GS702", "self.row += 1")]


@pytest.mark.parametrize(
    "source",
    [
        ring(memory="self.rows = rows"),
        ring(argument="", made="ring = Ring(4, 8)"),
        ring().replace("self.rows[self.row] = value", "self.rows[0] = value * 2"),
        ring() + "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.step = Step()\n\n    def forward(self, x):\n        return self.step(x, Ring(4, 8))\n",
    ],
)
def test_an_object_that_a_step_makes_or_that_only_counts_is_quiet(scan: Scan, source: str) -> None:
    assert [code for code, _ in scan(source) if code.startswith("GS7")] == []

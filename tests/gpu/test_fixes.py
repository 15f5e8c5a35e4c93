"""Fixed steps on a GPU: each is captured and replays what an eager step gives; as they were, they could not be.

`python -m pytest -m gpu -q tests/gpu/test_fixes.py`; what each pair did stands in gpu-fixes.json, in $OUT or a
temporary folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from fix_pairs import Pair, inputs, pairs, step_class

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

REPLAYS = 3
CAPTURES_ALL_THE_SAME = frozenset(("in-place",))
"A step that binds new tensors can be captured, but its replays go on from the old ones."
FIXED = [pytest.param(pair, id=pair.name) for pair in pairs() if pair.none is None]


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    captured: bool
    right: bool
    "Whether every replay gave what the eager step gave."
    error: str


@pytest.fixture(scope="module")
def log() -> Iterator[list[dict[str, Any]]]:
    kept: list[dict[str, Any]] = []
    yield kept
    text = json.dumps({"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "steps": kept}, indent=1)
    Path(os.environ.get("OUT", ".")).joinpath("gpu-fixes.json").write_text(text + "\n", encoding="utf-8")


@pytest.mark.parametrize("pair", FIXED)
def test_the_fixed_step_is_captured(pair: Pair, log: list[dict[str, Any]]) -> None:
    after = outcome(pair, pair.after)
    log.append({"after": True, **asdict(after)})
    assert after.captured and after.right, after.error


@pytest.mark.parametrize("pair", FIXED)
def test_the_step_as_it_was_is_not(pair: Pair, log: list[dict[str, Any]]) -> None:
    """Collected after all fixed ones: a failed capture leaves PyTorch's generator capturing."""
    before = outcome(pair, pair.before)
    log.append({"after": False, **asdict(before)})
    assert before.captured == (pair.fix in CAPTURES_ALL_THE_SAME)
    assert not (before.captured and before.right)


def outcome(pair: Pair, text: str) -> Outcome:
    device = torch.device("cuda")
    eager, captured = (made(text, device) for _ in range(2))
    static = [argument.to(device) for argument in inputs(pair, 0)]
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            captured(*static)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = captured(*static)
    except Exception as error:
        torch.cuda.synchronize(device)
        return Outcome(pair.name, False, False, str(error).strip().split("\n")[0])
    for _ in range(3):
        eager(*(argument.to(device) for argument in inputs(pair, 0)))
    right = True
    for seed in range(1, REPLAYS + 1):
        fresh = [argument.to(device) for argument in inputs(pair, seed)]
        expected = eager(*fresh)
        for argument, value in zip(static, fresh, strict=True):
            argument.copy_(value)
        graph.replay()
        torch.cuda.synchronize(device)
        right = right and torch.allclose(out.to(expected.dtype), expected, rtol=1e-5, atol=1e-6)
    return Outcome(pair.name, True, right, "" if right else "a replay gave something else")


def made(text: str, device: Any) -> Any:
    torch.manual_seed(0)
    return step_class(text)().to(device)

"""Measure the facts on which six rules are based, with torch alone. graphsafe is not used.

Each fact is measured in a process of its own, because a failed capture can leave a process unusable. The `evidence` of
GS606, GS608, GS610, GS611, GS612 and GS708 contains the results of torch 2.11 on an H200.

    python benchmarks/capture/rule_evidence.py  # on a machine with a GPU; a minute
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

DEVICE = "cuda:0"
REPEATS = 300


def captured(step: Callable[[], Any], *, warm_up: int = 3) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return a graph of the step and the step's static outputs. The step runs `warm_up` times before the capture."""
    stream = torch.cuda.Stream(DEVICE)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = step()
    return graph, out


def microseconds(step: Callable[[], Any]) -> float:
    """Return the median time of a call, in microseconds. The GPU has ended all work when the clock stops."""
    times = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(REPEATS):
            step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / REPEATS * 1e6)
    return statistics.median(times)


def _convolution_tuned() -> Callable[[], Any]:
    torch.backends.cudnn.benchmark = True
    layer, x = nn.Conv2d(8, 8, 3, device=DEVICE), torch.randn(2, 8, 32, 32, device=DEVICE)
    return lambda: layer(x)


def _linear() -> Callable[[], Any]:
    layer, x = nn.Linear(64, 64, device=DEVICE), torch.randn(8, 64, device=DEVICE)
    return lambda: layer(x)


def _trained() -> Callable[[], Any]:
    layer, x = nn.Linear(64, 64, device=DEVICE), torch.randn(8, 64, device=DEVICE)
    return lambda: layer(x).sum().backward()


def _solved() -> Callable[[], Any]:
    matrix = torch.eye(64, device=DEVICE) * 2
    return lambda: torch.linalg.cholesky_ex(matrix)


def _fourier() -> Callable[[], Any]:
    x = torch.randn(8, 64, device=DEVICE)
    return lambda: torch.fft.rfft(x)


def _filled_lazily() -> Callable[[], Any]:
    kept: dict[str, torch.Tensor] = {}
    x = torch.randn(8, 64, device=DEVICE)

    def step() -> torch.Tensor:
        if "scale" not in kept:
            kept["scale"] = torch.tensor([0.5] * 64).to(DEVICE)
        return x * kept["scale"]

    return step


FIRST_STEPS = {
    "linear": _linear,
    "training step": _trained,
    "convolution with cudnn.benchmark": _convolution_tuned,
    "cholesky_ex": _solved,
    "rfft": _fourier,
    "attribute that the first call fills from the host": _filled_lazily,
}


def without_warm_up(name: str) -> dict[str, Any]:
    """GS606: if the capture is the step's first call, does it succeed, and does its replay run?"""
    try:
        graph, _ = captured(FIRST_STEPS[name](), warm_up=0)
        graph.replay()
        torch.cuda.synchronize()
    except Exception as error:
        return {"captured": False, "error": str(error).splitlines()[0]}
    return {"captured": True}


def aware_branch() -> dict[str, Any]:
    """GS608: a step returns another formula while it is captured."""
    x = torch.randn(8, 64, device=DEVICE)

    def step() -> torch.Tensor:
        return x * 2 if torch.cuda.is_current_stream_capturing() else x * 3

    graph, out = captured(step)
    graph.replay()
    return {"replay equals eager": torch.equal(out, step())}


def device_wide_wait() -> dict[str, Any]:
    """GS610: microseconds for two replays of small graphs, with and without a wait between them."""
    layers, x = [nn.Linear(512, 512, device=DEVICE) for _ in range(8)], torch.randn(8, 512, device=DEVICE)

    def half() -> torch.Tensor:
        y = x
        for layer in layers:
            y = layer(y).relu()
        return y

    first, kept = captured(half)
    second, also_kept = captured(half)

    def in_order() -> None:
        first.replay()
        second.replay()

    def waiting() -> None:
        first.replay()
        torch.cuda.synchronize()
        second.replay()

    with torch.no_grad():
        times = {"in order": microseconds(in_order), "with a wait": microseconds(waiting)}
    assert torch.equal(kept, also_kept)
    return times


def unmarked_break() -> dict[str, Any]:
    """GS611: a callable that attends over a growing length is given to make_graphed_callables."""

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.length = 4
            self.register_buffer("cache", torch.randn(32, 64, device=DEVICE))

        def forward(self, query: torch.Tensor) -> torch.Tensor:
            keys = self.cache[: self.length]
            return torch.softmax(query @ keys.T, -1) @ keys

    attention, query = Attention(), torch.randn(2, 64, device=DEVICE, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(attention, (query,))
    attention.train()
    equal = []
    for length in (4, 5, 9):
        attention.length = length
        eager = Attention.forward(attention, query)  # graphed() is now the instance's own `forward`
        equal.append(torch.allclose(graphed(query), eager, atol=1e-5))
    return {"equal to eager at lengths 4 (captured), 5, 9": equal}


def needless_break() -> dict[str, Any]:
    """GS612: microseconds for one graph of a step, and for two graphs with an eager layer between them."""
    layers, x = [nn.Linear(512, 512, device=DEVICE) for _ in range(8)], torch.randn(8, 512, device=DEVICE)

    def run(y: torch.Tensor, part: list[nn.Linear]) -> torch.Tensor:
        for layer in part:
            y = layer(y).relu()
        return y

    with torch.no_grad():
        whole, out = captured(lambda: run(x, layers))
        before, middle_in = captured(lambda: run(x, layers[:3]))
        middle_out = torch.empty_like(middle_in)
        after, other = captured(lambda: run(middle_out, layers[5:]))

        def broken() -> None:
            before.replay()
            middle_out.copy_(run(middle_in, layers[3:5]))
            after.replay()

        times = {"one graph": microseconds(whole.replay), "two graphs and a break": microseconds(broken)}
        return {**times, "equal": torch.equal(out, other)}


def partial_refresh() -> dict[str, Any]:
    """GS708: a replay computes the mean over four rows of a static input after only two of them were written."""
    static = torch.ones(4, 8, device=DEVICE)
    graph, out = captured(lambda: static.mean(0))
    fresh = torch.full((2, 8), 5.0, device=DEVICE)
    static[:2].copy_(fresh)
    graph.replay()
    return {"replay": out[0].item(), "mean of the two fresh rows": fresh.mean(0)[0].item()}


FACTS: dict[str, Callable[[], dict[str, Any]]] = {
    **{f"GS606 {name}": lambda name=name: without_warm_up(name) for name in FIRST_STEPS},
    "GS608": aware_branch,
    "GS610": device_wide_wait,
    "GS611": unmarked_break,
    "GS612": needless_break,
    "GS708": partial_refresh,
}


def main() -> None:
    if len(sys.argv) == 2:
        print(json.dumps(FACTS[sys.argv[1]]()))
        return
    print(torch.__version__, torch.cuda.get_device_name(0))
    for name in FACTS:
        child = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
        print(name, child.stdout.strip() or f"failed: {child.stderr.strip().splitlines()[-1:]}")


if __name__ == "__main__":
    main()

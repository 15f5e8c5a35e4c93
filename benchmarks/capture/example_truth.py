"""Find out without graphsafe how each example behaves on a GPU: capture it, replay it, and compare it with a twin.

    python benchmarks/capture/example_truth.py            every target of examples/graphsafe.toml, one process each
    python benchmarks/capture/example_truth.py FILE:NAME  one of them, in this process

A line says whether a random number could be drawn after construction, and whether a plain capture succeeded (or its
first error). It also says whether replays on three new inputs equal two eager twins: one with the warm-up of the
captured module, and one without a warm-up.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WARMUP = 3


def first_error(error: BaseException) -> str:
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def ask(target: str) -> None:
    import torch

    device = torch.device("cuda", 0)
    file, _, name = target.partition(":")
    sys.path[:0] = [str((EXAMPLES / file).parent)]
    factory: Callable[..., Any] = getattr(importlib.import_module(Path(file).stem), name)

    def draws() -> str:
        try:
            torch.randn(1, device=device)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return "draws"

    def capture(step: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
            output = step()
        return graph, output

    drawn = []

    def build() -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
        torch.manual_seed(0)
        module, args, kwargs = (*factory(device), {})[:3]
        drawn.append(draws())
        if drawn[-1] != "draws":
            torch.cuda.set_stream(torch.cuda.default_stream(device))
            capture(lambda: torch.ones(1, device=device))
            drawn.append(draws())
        return module, args, kwargs

    def vary(values: Sequence[Any], seed: int) -> None:
        torch.manual_seed(seed)
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                value.normal_()
            elif isinstance(value, torch.Tensor):
                value.copy_(torch.randint(1, int(value.max()) + 1, value.shape))

    module, args, kwargs = build()
    said = f"{target}: after construction {', after a good capture '.join(drawn)}"
    twin = build()[0]
    values = [*args, *kwargs.values()]
    try:
        for _ in range(WARMUP):
            module(*args, **kwargs)
            twin(*args, **kwargs)
        torch.cuda.synchronize(device)
        graph, output = capture(lambda: module(*args, **kwargs))
    except Exception as error:
        print(f"{said}; capture fails: {first_error(error)}")
        return
    warmed, unwarmed = [], []
    for seed in (1, 2, 3):
        vary(values, seed)
        graph.replay()
        warmed.append(torch.allclose(output, twin(*args, **kwargs), rtol=1e-3, atol=1e-4))
        unwarmed.append(torch.allclose(output, build()[0](*args, **kwargs), rtol=1e-3, atol=1e-4))
    print(f"{said}; captures; equals warmed twin {warmed}, fresh twin {unwarmed}")


def main() -> None:
    if len(sys.argv) > 1:
        ask(sys.argv[1])
        return
    sys.path[:0] = [str(EXAMPLES.parent / "src")]
    from graphsafe.config import load_config

    def child(factory: str) -> str:
        done = subprocess.run([sys.executable, __file__, factory], capture_output=True, text=True)
        return done.stdout.strip() or f"{factory}: {done.stderr.strip()[-400:]}"

    with ThreadPoolExecutor(8) as pool:
        for said in pool.map(child, [target.factory for target in load_config(EXAMPLES).targets.values()]):
            print(said, flush=True)


if __name__ == "__main__":
    main()

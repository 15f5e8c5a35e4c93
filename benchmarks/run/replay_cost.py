"""Measure the microseconds of host time for each launch of a graph, without and with `graphsafe run`.

    python benchmarks/run/replay_cost.py           # needs a GPU that nothing else uses

Both programs run beside each other, one process each. Each gives the lowest of five series of 2,000 launches.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import time, torch

x = torch.ones(64, device="cuda")
for _ in range(3):
    y = x + 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(80):
        y = y + 1

def series(count=2000):
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(count):
        graph.replay()
    took = (time.perf_counter() - begun) / count * 1e6
    torch.cuda.synchronize()
    return took

series()
print(min(series() for _ in range(5)))
"""


def main() -> None:
    """Print both times and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "program.py").write_text(PROGRAM, encoding="utf-8")
        plain = _launch([sys.executable, "program.py"], folder)
        watched = _launch([sys.executable, "-m", "graphsafe", "run", "--", sys.executable, "program.py"], folder)
    print(f"a replay: {plain:.2f} µs plain, {watched:.2f} µs watched, {watched / plain:.2f} times")


def _launch(command: list[str], folder: str) -> float:
    """Run a program that prints one number of microseconds, and return this number."""
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return float(ran.stdout)


if __name__ == "__main__":
    main()

"""Compare the cost of a scan with the cost of bare parsers on the same files, in one run on one machine.

    python benchmarks/scan/speed.py FOLDER [--plot docs/scan_linear.svg] [--skip-parsers]

FOLDER is a large tree of Python files, such as an unpacked wheel of vLLM. Every measurement is a new process. CPU
seconds are user and system time, including child processes. `ruff` is taken from PATH if it exists there. Files are
first copied to a temporary folder, because a scan writes a cache and one measurement changes a file. libcst needs a
long time for all files. Meanwhile, cold scans run one after the other on another core, so that changes of the machine's
speed affect both measurements.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

PARSE = """
import sys, pathlib, {module}
for path in map(pathlib.Path, open(sys.argv[1]).read().split("\\n")):
    try:
        {module}.{call}(path.read_bytes())
    except Exception:
        pass
"""
CHILD = """
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


SCAN = (sys.executable, "-m", "graphsafe", "scan", "--format", "concise")
"The format shows no edits, because edits are made with libcst, which takes another 100 MB."


@dataclass(frozen=True, slots=True)
class Cost:
    wall: float
    cpu: float
    peak: float
    "The peak memory of the largest process in MB."


def run(*command: str, cwd: Path | None = None) -> Cost:
    """Run a command as a separate process and return its cost. Any exit code is accepted."""
    done = subprocess.run([sys.executable, "-c", CHILD, *command], cwd=cwd, capture_output=True, text=True, check=True)
    wall, cpu, peak = map(float, done.stderr.split())
    return Cost(wall, cpu, peak / 1024)


def scan(folder: Path, *options: str, path: str = ".") -> Cost:
    return run(*SCAN, path, *options, cwd=folder)


def beside(long: Sequence[str], short: Callable[[], Cost]) -> tuple[Cost, Cost]:
    """Return the cost of a long command, and the mean cost of a short command that ran repeatedly at the same time."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, *long)
        costs = [short()]
        while not running.done():
            costs.append(short())
    count = len(costs)
    wall, cpu = sum(cost.wall for cost in costs) / count, sum(cost.cpu for cost in costs) / count
    return running.result(), Cost(wall, cpu, max(cost.peak for cost in costs))


def sample(source: Path, target: Path, share: float) -> int:
    """Copy every n-th file, and return the number of copied lines."""
    files = [path for path in sorted(source.rglob("*.py")) if path.is_file()]
    step = round(1 / share)
    lines = 0
    for path in files[::step] if step > 1 else files:
        copy = target / path.relative_to(source.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        lines += path.read_bytes().count(b"\n")
    return lines


def show(what: str, cost: Cost, base: Cost | None = None) -> Cost:
    ratio = f"{cost.cpu / base.cpu:7.2f}" if base is not None else ""
    print(f"{what:60}{cost.wall:8.2f}{cost.cpu:8.2f}{cost.peak:8.0f} {ratio}", flush=True)
    return cost


def plot(points: list[tuple[int, Cost]], target: Path) -> None:
    """Plot CPU seconds over lines, with the straight line through the origin and the last point."""
    width, height, edge = 460, 280, 50
    most_lines, most_cpu = points[-1][0], max(cost.cpu for _, cost in points) * 1.1

    def at(lines: int, cpu: float) -> tuple[float, float]:
        return edge + lines / most_lines * (width - 2 * edge), height - edge - cpu / most_cpu * (height - 2 * edge)

    (x0, y0), (x1, y1) = at(0, 0), at(*(points[-1][0], points[-1][1].cpu))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<path d="M{edge} {edge}V{height - edge}H{width - edge}" fill="none" stroke="black"/>',
        f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="#999" stroke-dasharray="4"/>',
    ]
    for lines, cost in points:
        x, y = at(lines, cost.cpu)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#0b6e4f"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y - 8:.1f}" text-anchor="end">{cost.cpu:.1f} s</text>')
        parts.append(f'<text x="{x:.1f}" y="{height - edge + 18}" text-anchor="middle">{lines / 1e6:.2f} M</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">lines of Python</text>')
    parts.append(f'<text x="{edge}" y="{edge - 12}">CPU seconds of a cold scan</text></svg>')
    target.write_text("\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--skip-parsers", action="store_true")
    options = parser.parse_args()
    source = options.folder.resolve()
    print(f"{'':60}{'wall s':>8}{'cpu s':>8}{'MB':>8}   ratio")
    with tempfile.TemporaryDirectory() as folder:
        points: list[tuple[int, Cost]] = []
        for share in (0.1, 0.3, 1.0):
            target = Path(folder) / f"share{share}"
            target.mkdir()
            (target / "pyproject.toml").write_text("")
            lines = sample(source, target, share)
            points.append((lines, scan(target, "--no-cache", "-j", "1")))
            show(f"scan cold, -j1, {share:.1f} of the files, {lines} lines", points[-1][1])
        whole = Path(folder) / "share1.0"
        if options.plot is not None:
            plot(points, options.plot)
        if not options.skip_parsers:
            listing = Path(folder) / "files.txt"
            listing.write_text("\n".join(str(path) for path in sorted(whole.rglob("*.py"))))
            bare = (sys.executable, "-c", PARSE.format(module="libcst", call="parse_module"), str(listing))
            libcst, cold = beside(bare, lambda: scan(whole, "--no-cache", "-j", "1"))
            show("libcst.parse_module", libcst)
            show("scan cold, -j1, beside it, in the mean", cold, libcst)
            show("ast.parse", run(sys.executable, "-c", PARSE.format(module="ast", call="parse"), str(listing)), libcst)
        show(f"scan cold, -j{os.cpu_count()}, filling the cache", scan(whole))
        warm = show("scan warm", scan(whole))
        ruff = shutil.which("ruff", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        if ruff is not None:
            show(
                "scan warm, to ruff check --no-cache",
                warm,
                show("ruff check --no-cache", run(ruff, "check", "--no-cache", ".", cwd=whole)),
            )
        changed = next(path for path in sorted(whole.rglob("*.py")) if path.stat().st_size > 5_000)
        changed.write_text(changed.read_text("utf-8") + "\nX_CHANGED = 1\n", "utf-8")
        show(f"scan after an edit to {changed.name}", scan(whole))
        one = next(path for path in sorted(whole.rglob("*.py")) if b"nn.Module" in path.read_bytes())
        show(f"scan of {one.name} in the project, no cache", scan(whole, "--no-cache", path=str(one)))
        alone = Path(folder) / "alone"
        alone.mkdir()
        (alone / "step.py").write_bytes(one.read_bytes())
        imports = show("python -c 'import libcst'", run(sys.executable, "-c", "import libcst"))
        show("scan of one file alone, no cache", scan(alone, "--no-cache", path="step.py"), imports)
        click = show("python -c 'import click'", run(sys.executable, "-c", "import click"))
        show("graphsafe --help", run(sys.executable, "-m", "graphsafe", "--help"), click)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB, {time.strftime('%Y-%m-%d')}")


if __name__ == "__main__":
    main()

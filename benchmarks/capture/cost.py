"""Measure the cost of captures: the seconds and CPU seconds of each target, and of all targets in one command.

    python benchmarks/capture/cost.py examples                      # every target of the configuration there
    python benchmarks/capture/cost.py examples llama gpt2 --device cuda:0
    python benchmarks/capture/cost.py tests/capture/targets --crashing 50

CPU seconds include all processes that descend from the command. They are read from /proc while the command runs, so the
last twentieth of a second of each process is missed.

`--crashing N` makes N runs of targets that crash, exit, raise, fork, leave daemons or patch Python. Then it prints what
is left: processes, folders in the temporary directory, and bytes on the GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

CRASHING = (
    "step_segfaults",
    "step_exits",
    "raises",
    "leaves_a_child",
    "leaves_daemons",
    "capture_exits",
    "patches_python",
)
_TICKS = os.sysconf("SC_CLK_TCK")
_MARK = "GRAPHSAFE_BENCHMARK"


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    cpu: float
    reports: Sequence[Mapping[str, Any]]


def run(folder: Path, arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> Cost:
    """Run `graphsafe capture` in a folder, and drop its output. Any verdict is accepted."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "report.json")
        used: dict[tuple[int, str], float] = {}
        started = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "graphsafe", "capture", *arguments, "-o", str(file)],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None:
            note_cpu(process.pid, used)
            time.sleep(0.05)
        seconds = time.monotonic() - started
        told = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"reports": []}
    return Cost(seconds, sum(used.values()), told.get("reports") or [told])


def note_cpu(ancestor: int, used: dict[tuple[int, str], float]) -> None:
    """Record in `used` the CPU seconds so far of a process and of its descendants, by process id and start time."""
    stats: dict[int, list[str]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stats[int(name)] = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(stats[int(name)][1]), []).append(int(name))
    left = [ancestor]
    while left:
        pid = left.pop()
        left += children.get(pid, ())
        if pid in stats:
            fields = stats[pid]
            used[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS


def timing(report: Mapping[str, Any]) -> str:
    """Return the seconds of each child in a report's first bucket, and the seconds of the children's activities."""
    device = next(iter(report.get("devices") or ()), None)
    if device is None:
        return ""
    part = next(iter(device["buckets"]), device)
    told = part["probes"].get("timing", {})
    spent: dict[str, float] = {}
    for parts in (told.get("spent") or {}).values():
        for name, seconds in parts.items():
            spent[name] = spent.get(name, 0.0) + seconds
    children = ", ".join(f"{name} {seconds:.1f}" for name, seconds in (told.get("children") or {}).items())
    return f"{children} (of these: {', '.join(f'{name} {seconds:.1f}' for name, seconds in spent.items())})"


def costs(folder: Path, chosen: Sequence[str], options: Sequence[str]) -> None:
    """Print a line for each target. If no targets were chosen, also print a line for all of them in one command."""
    print("| target | verdict | s | CPU s | seconds of each child |\n|---|---|---|---|---|")
    alone = 0.0
    for name in chosen or configured(folder):
        cost = run(folder, [name, *options])
        alone += cost.seconds
        report = next(iter(cost.reports), {})
        print(
            f"| {name} | {report.get('verdict')} | {cost.seconds:.1f} | {cost.cpu:.1f} | {timing(report)} |", flush=True
        )
    if chosen:
        return
    together = run(folder, ["--all", *options])
    count = len(together.reports)
    print(f"| --all, {count} targets | | {together.seconds:.1f} | {together.cpu:.1f} | alone: {alone:.1f} s in all |")


def configured(folder: Path) -> list[str]:
    from graphsafe.config import load_config

    return list(load_config(folder).targets)


def crashing(folder: Path, count: int, options: Sequence[str]) -> int:
    """Print and return the number of things that are left. The number of parallel runs is half the number of cores."""
    mark, bytes_before = f"{os.getpid()}-{time.time_ns()}", gpu_bytes()

    def crash(factory: str) -> None:
        cost = run(folder, [f"bad.py:{factory}", *options], {_MARK: mark, "TMPDIR": temporary})
        verdict = next(iter(cost.reports), {}).get("verdict")
        print(f"{factory:<16} {verdict}  {cost.seconds:.1f} s", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
            list(pool.map(crash, itertools.islice(itertools.cycle(CRASHING), count)))
        processes = [pid for pid in os.listdir("/proc") if pid.isdigit() and has_mark(pid, mark)]
        # torch keeps its compiler's cache there.
        folders = [name for name in os.listdir(temporary) if not name.startswith("torchinductor")]
    print(f"left: {len(processes)} processes {processes}, {len(folders)} files or folders {folders}")
    print(f"GPU bytes in use before and after: {bytes_before}, {gpu_bytes()}")
    return len(processes) + len(folders)


def has_mark(pid: str, mark: str) -> bool:
    try:
        return f"{_MARK}={mark}".encode() in Path("/proc", pid, "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def gpu_bytes() -> str:
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader"]
    try:
        return " ".join(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split())
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the configuration lies, or bad.py for --crashing")
    parser.add_argument("names", nargs="*", help="configured targets; if none is given all of them, and --all")
    parser.add_argument("--device", help="as for `graphsafe capture`")
    parser.add_argument("--crashing", type=int, metavar="N", help="run what crashes, N times")
    given = parser.parse_args()
    options = ["--device", given.device] if given.device else []
    if given.crashing:
        return min(crashing(given.folder, given.crashing, options), 1)
    costs(given.folder, given.names, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())

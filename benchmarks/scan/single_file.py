"""Measure the cost of scanning one file of a large project alone, without a cache, and count how many errors and
warnings of the whole scan this finds.

    python benchmarks/scan/single_file.py FOLDER [COUNT] [SEED]

FOLDER is scanned whole first. Then COUNT files (40) among those with errors or warnings are drawn with a seed (7), and
scanned alone.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from speed import run

SCAN = (sys.executable, "-m", "graphsafe", "scan", "--no-cache", "--exit-zero", "-q")


def scan(path: Path) -> tuple[float, dict[Path, set[tuple[int, str]]]]:
    """Scan in a separate process. Return its CPU seconds, and the lines and codes of errors and warnings by file."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        cost = run(*SCAN, "-o", str(report), path.name, cwd=path.parent)
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    found: dict[Path, set[tuple[int, str]]] = {}
    for finding in findings:
        at = finding["location"]
        if finding["level"] == "note":
            continue
        found.setdefault((path.parent / at["path"]).resolve(), set()).add((at["line"], finding["code"]))
    return cost.cpu, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int, nargs="?", default=40)
    parser.add_argument("seed", type=int, nargs="?", default=7)
    options = parser.parse_args()
    folder = options.folder.resolve()
    _, whole = scan(folder)
    drawn = random.Random(options.seed).sample(sorted(whole, key=Path.as_posix), options.count)
    seconds: list[float] = []
    complete = kept = beside = 0
    for path in drawn:
        cost, found = scan(path)
        alone = found.get(path, set())
        seconds.append(cost)
        missed = whole[path] - alone
        complete += not missed
        kept += len(whole[path] & alone)
        beside += len(alone - whole[path])
        print(f"{seconds[-1]:6.1f} s  {path.relative_to(folder)}: {len(whole[path])} findings, {len(missed)} missed")
    total = sum(len(whole[path]) for path in drawn)
    print(f"{complete} of {len(drawn)} files complete; {kept} of {total} findings, {beside} beside them")
    print(f"{min(seconds):.1f} to {max(seconds):.1f} s of CPU, {statistics.median(seconds):.1f} in the middle")


if __name__ == "__main__":
    main()

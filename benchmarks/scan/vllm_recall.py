"""Count the waits marked by vLLM's maintainers that scan finds, and the other findings of scan.

Each wait for the device that vLLM's hot path still needs is in a `with gpu_sync_allowed():` block. vLLM's CI fails on
any other wait. Each mark is replaced by `if True:`, so that line numbers stay the same, and the package is scanned. A
block counts as found if it contains a finding above note, except GS4xx. Some blocks only call a function of the package
that waits. Whether the waiting line is reported is counted separately.

    pip download --no-deps vllm==0.33.0
    python benchmarks/scan/vllm_recall.py vllm-0.33.0-*.whl [--missed]     # the tables of docs/accuracy/waits.md
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import findings_above_note, named_lines, unpack

SIGNALS = Path(__file__).resolve().parents[1] / "data" / "vllm_signals.json"
"File -> line of the mark -> the strongest signal in the block, as judged by a reader."
CALLED = SIGNALS.with_name("vllm_called_waits.json")
"For blocks that only call the package: file -> line of the mark -> file -> the lines that wait, as judged by a reader."

MARK = re.compile(r"^([ \t]*)with gpu_sync_allowed\([^)]*\):", re.M)
WRAPPER = re.compile(r"^[ \t]*(@with_gpu_sync_check|enable_gpu_sync_check\(\)|from \S*gpu_sync_debug import .*)$", re.M)
WRAPPER_HOME = "gpu_sync_debug.py"


@dataclass(frozen=True, slots=True)
class Block:
    """The lines inside one mark, without the line of the mark itself."""

    path: str
    mark: int
    first: int
    last: int
    signal: str
    called: frozenset[tuple[str, int]]
    "The lines elsewhere in the package that wait when the block runs."

    def covers(self, path: str, line: int) -> bool:
        return path == self.path and self.first <= line <= self.last


def blocks_of(path: str, source: str, signals: dict[str, str], called: dict[str, Any]) -> Iterator[Block]:
    marked = {source.count("\n", 0, match.start(1)) + 1 for match in MARK.finditer(source)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.With) and node.lineno in marked:
            last = node.body[-1].end_lineno or node.lineno
            mark = str(node.lineno)
            at = called[mark]["waits_at"] if mark in called else {}
            waits = frozenset((file, line) for file, lines in at.items() for line in lines)
            yield Block(path, node.lineno, node.lineno + 1, last, signals.get(mark, "not judged"), waits)


def without_marks(source: str) -> str:
    """Return the same lines without the wrapper."""
    return WRAPPER.sub("", MARK.sub(r"\1if True:", source))


def prepare(folder: Path) -> tuple[list[Block], dict[str, list[int]]]:
    """Remove the marks from the files in `folder`. Return the marked blocks, and the lines that a search for names
    reports."""
    signals = json.loads(SIGNALS.read_text(encoding="utf-8"))
    called = json.loads(CALLED.read_text(encoding="utf-8"))
    blocks: list[Block] = []
    named: dict[str, list[int]] = {}
    for file in sorted(folder.rglob("*.py")):
        path = file.relative_to(folder).as_posix()
        source = file.read_text(encoding="utf-8")
        if "gpu_sync" in source and file.name != WRAPPER_HOME:
            blocks += blocks_of(path, source, signals.get(path, {}), called.get(path, {}))
            source = without_marks(source)
            file.write_text(source, encoding="utf-8")
        named[path] = sorted(set(named_lines(ast.parse(source))))
    return blocks, named


def relative(path: str, folder: Path) -> str:
    return Path(path).resolve().relative_to(folder.resolve()).as_posix()


def counted(lines: Sequence[tuple[str, int]]) -> int:
    return sum("third_party" not in path for path, _ in lines)


def main() -> int:
    wheel = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(wheel, folder)
        blocks, named = prepare(folder)
        findings = findings_above_note(folder)
        places = [(relative(f.location.path, folder), f.location.line, f.code, f.message) for f in findings]
        sources = {b.path: (folder / b.path).read_text(encoding="utf-8").splitlines() for b in blocks}
    scanned = [(path, line) for path, line, _, _ in places]
    by_name = [(path, line) for path, lines in named.items() for line in lines]
    found = [b for b in blocks if any(b.covers(*place) for place in scanned)]
    found_by_name = [b for b in blocks if any(b.covers(*place) for place in by_name)]
    captured = [place for place, finding in zip(scanned, findings, strict=True) if finding.region == "captured"]
    reported = [b for b in blocks if b in found or not b.called.isdisjoint(scanned)]
    found_captured = [b for b in blocks if any(b.covers(*place) for place in captured)]
    print("| | blocks found | findings above note outside third_party |\n|---|---|---|")
    for title, right, lines in (
        ("scan", found, scanned),
        ("scan, in the block or where what it calls waits", reported, scanned),
        ("scan, in the block and in region `captured`", found_captured, captured),
        ("names alone", found_by_name, by_name),
    ):
        print(f"| {title} | {len(right)} of {len(blocks)} ({len(right) / len(blocks):.2f}) | {counted(lines)} |")
    print("\n| signal in the block | blocks | scan | names alone |\n|---|---|---|---|")
    for signal, count in Counter(b.signal for b in blocks).most_common():
        rows = (sum(b.signal == signal for b in side) for side in (found, found_by_name))
        print(f"| {signal} | {count} | " + " | ".join(map(str, rows)) + " |")
    codes = Counter(code for path, _, code, _ in places if "third_party" not in path)
    print("\n" + ", ".join(f"{code} {count}" for code, count in sorted(codes.items())))
    if "--missed" in sys.argv:
        for block in blocks:
            if block not in found:
                elsewhere = ", reported where it waits" if block in reported else ""
                print(f"\n{block.path}:{block.first}-{block.last} ({block.signal}{elsewhere})")
                print("\n".join(sources[block.path][block.first - 1 : block.last]))
    if "--findings" in sys.argv:
        for place in places:
            print("{}:{}: {} {}".format(*place))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure how well scan distinguishes lines of transformers that wait for the device from lines that only run.

The truth comes from `transformers_truth.py`. A line that waited counts as found if a finding above note covers it.
Other findings above note are on lines that ran and did not wait. Such a finding counts as false if its code says that
the line waits (GS1xx, GS2xx, GS3xx). It is listed separately if it is about something that sync debug mode cannot see.

    pip download --no-deps transformers==5.17.0
    python benchmarks/scan/transformers_accuracy.py transformers-5.17.0-*.whl [--lines]  # docs/accuracy/waits.md
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import findings_above_note, named_lines, unpack

TRUTH = Path(__file__).resolve().parents[1] / "data" / "transformers_truth.json"


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    first: int
    last: int
    code: str
    message: str

    def covers(self, path: str, line: int) -> bool:
        return path == self.path and self.first <= line <= self.last


class Truth:
    def __init__(self, data: Mapping[str, Any]) -> None:
        self.versions: Mapping[str, str] = data["versions"]
        self.models: Mapping[str, Mapping[str, str]] = data["models"]
        self.ran = {path: {line for a, b in runs for line in range(a, b + 1)} for path, runs in data["ran"].items()}
        self.waits = [(path, int(line)) for path, lines in data["waits"].items() for line in lines]
        self.guarded = {
            (path, int(line))
            for path, lines in data["waits"].items()
            for line, w in lines.items()
            if not w["in_captures"]
        }

    def executed(self, place: Place) -> bool:
        return any(line in self.ran.get(place.path, ()) for line in range(place.first, place.last + 1))

    def found(self, places: Iterable[Place]) -> list[tuple[str, int]]:
        by_file: dict[str, list[Place]] = {}
        for place in places:
            by_file.setdefault(place.path, []).append(place)
        return [wait for wait in self.waits if any(place.covers(*wait) for place in by_file.get(wait[0], ()))]

    def beside(self, places: Iterable[Place]) -> list[Place]:
        """Return the places on lines that ran and did not wait."""
        return [p for p in places if self.executed(p) and not any(p.covers(*wait) for wait in self.waits)]


def found_in(folder: Path, hot: bool = False) -> list[Place]:
    """Return the findings above note in an unpacked wheel. With `hot`, every function counts as part of a step."""
    return [
        Place(
            Path(finding.location.path).resolve().relative_to(folder).as_posix(),
            finding.location.line,
            finding.location.end_line,
            finding.code,
            finding.message,
        )
        for finding in findings_above_note(folder, hot)
    ]


def main() -> int:
    truth = Truth(json.loads(TRUTH.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        unpack(Path(sys.argv[1]), folder)
        places = found_in(folder)
        names = [
            Place(file.relative_to(folder).as_posix(), line, line, "", "")
            for file in sorted(folder.rglob("*.py"))
            for line in set(named_lines(ast.parse(file.read_text(encoding="utf-8"))))
        ]
        sources = {path: (folder / path).read_text(encoding="utf-8").splitlines() for path in truth.ran}
    found, false = truth.found(places), [p for p in truth.beside(places) if p.code < "GS4"]
    steps = [step for model in truth.models.values() for kind, step in model.items() if kind != "built"]
    print(f"{steps.count('ran')} steps of {sum(m['built'] == 'yes' for m in truth.models.values())} models, ", end="")
    print(f"{sum(map(len, truth.ran.values()))} lines ran; {truth.versions}\n")
    reachable = [wait for wait in truth.waits if wait not in truth.guarded]
    print("| | lines that wait, found | of those that a capture reaches | false, on lines that ran | findings in all |")
    print("|---|---|---|---|---|")
    for title, right, wrong, everything in (
        ("scan", found, false, places),
        ("names alone", truth.found(names), truth.beside(names), names),
    ):
        reached = [wait for wait in right if wait in reachable]
        print(
            f"| {title} | {len(right)} of {len(truth.waits)} ({len(right) / len(truth.waits):.2f}) "
            f"| {len(reached)} of {len(reachable)} ({len(reached) / len(reachable):.2f}) "
            f"| {len(wrong)} | {len(everything)} |"
        )
    apart = Counter(p.code for p in truth.beside(places) if p.code >= "GS4")
    print(
        f"\nOn lines that ran, of what no wait can confirm: {', '.join(f'{c} {n}' for c, n in sorted(apart.items()))}"
    )
    if "--lines" in sys.argv:
        for path, line in truth.waits:
            if (path, line) not in found:
                guarded = " (guarded)" if (path, line) in truth.guarded else ""
                print(f"missed{guarded} {path}:{line}: {sources[path][line - 1].strip()}")
        for place in truth.beside(places):
            print(f"beside {place.path}:{place.first}: {place.code} {place.message}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

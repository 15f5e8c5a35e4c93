"""Measure the hazards that `graphsafe scan` finds in tests/scan/corpus, and its noise. See natural_style_labels.py.

    python benchmarks/scan/natural_style.py                  # the frozen part
    python benchmarks/scan/natural_style.py untouched
    python benchmarks/scan/natural_style.py --names          # also which hazards were missed and which twins were noisy

    python benchmarks/scan/natural_style.py --targets        # with the factories of its targets

Each project's package is scanned alone and unchanged, without its targets. A hazard is found if an error or a warning
is at a line to blame and has a code for the right cause. `line` also counts other codes. A sound module is noisy if an
error or a warning is in its own lines. Do not use --names on the untouched part. This part shows whether repairs for
the frozen part also help elsewhere.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu import hazards
from tests.gpu.agreement import Mark, child_environment, on, share
from tests.gpu.hazards import Hazard

LOUD = ("error", "warning")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of scan for one module."""

    hazard: Hazard
    found: bool
    "Whether the hazard was found by its line and a right code."
    line: bool
    "Whether the hazard was found by its line."
    noise: tuple[str, ...]
    "The findings in a sound module, as CODE FILE:LINE."


def scan(project: Path, packages: Sequence[Path]) -> list[dict[str, Any]]:
    """Return errors and warnings, each with `code`, `path`, `line` and `end_line`."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "graphsafe", "scan", "--no-cache", "-o", str(report)]
        done = subprocess.run(
            [*command, *map(str, packages)], cwd=project, env=child_environment(), capture_output=True, text=True
        )
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    return [
        {
            "code": finding["code"],
            "path": str((project / finding["location"]["path"]).resolve()),
            "line": finding["location"]["line"],
            "end_line": finding["location"]["end_line"],
        }
        for finding in findings
        if finding["level"] in LOUD and not finding["suppressed"]
    ]


def outcomes(chosen: Sequence[Hazard], with_targets: bool = False) -> list[Outcome]:
    def scanned(one: Hazard) -> list[Path]:
        return [*one.packages, one.project / "targets.py"] if with_targets else one.packages

    findings = {project: scan(project, scanned(one)) for project, one in {h.project: h for h in chosen}.items()}
    return [outcome(hazard, findings[hazard.project]) for hazard in chosen]


def outcome(hazard: Hazard, findings: Iterable[dict[str, Any]]) -> Outcome:
    def named(right: Callable[[Mark, str], bool]) -> bool:
        marks = hazard.case.marks
        return any(on(finding, mark) and right(mark, finding["code"]) for finding in findings for mark in marks)

    noise = tuple(
        f"{finding['code']} {Path(finding['path']).name}:{finding['line']}"
        for finding in findings
        for extent in hazard.body
        if finding["path"] == extent.path and extent.first <= finding["line"] <= extent.last
    )
    return Outcome(hazard, named(lambda mark, code: code in mark.codes), named(lambda mark, code: True), noise)


def table(told: Sequence[Outcome]) -> str:
    """Return a table of the recall by kind and place, and the number of noisy sound modules."""
    hazardous = [one for one in told if not one.hazard.sound]
    sound = [one for one in told if one.hazard.sound]
    lines = [f"{'':22} {'found':>18} {'line':>18}"]

    def row(name: str, some: Sequence[Outcome]) -> None:
        found, line = (share(sum(values), len(some)) for values in zip(*((o.found, o.line) for o in some), strict=True))
        lines.append(f"{name:22} {found:>18} {line:>18}")

    for kind in sorted({one.hazard.kind for one in hazardous}):
        row(kind, [one for one in hazardous if one.hazard.kind == kind])
    lines.append("")
    for place in hazards.PLACES:
        if some := [one for one in hazardous if one.hazard.place == place]:
            row(place, some)
    if hazardous:
        row("all", hazardous)
    lines += ["", f"noisy sound modules: {share(sum(bool(one.noise) for one in sound), len(sound))}"]
    return "\n".join(lines)


def names(told: Sequence[Outcome]) -> str:
    lines = []
    for one in told:
        name = f"{one.hazard.project.name}/{one.hazard.case.name}"
        if one.noise:
            lines.append(f"noisy  {name}: {', '.join(one.noise)}")
        elif not one.hazard.sound and not one.found:
            places = ", ".join(f"{Path(mark.path).name}:{mark.line}" for mark in one.hazard.case.marks)
            lines.append(f"{'code' if one.line else 'missed':6} {name}: {places}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=hazards.PARTS, default="frozen")
    parser.add_argument("--names", action="store_true", help="name what was missed and what was noisy")
    parser.add_argument("--targets", action="store_true", help="scan the targets' factories, too")
    options = parser.parse_args()
    told = outcomes(hazards.hazards(options.part), options.targets)
    if options.names:
        print(names(told), end="\n\n")
    print(table(told))


if __name__ == "__main__":
    main()

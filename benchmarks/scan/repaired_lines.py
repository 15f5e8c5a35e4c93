"""Count how many lines scan finds of those that repositories removed because they broke or stalled CUDA graphs.

The labels were read from commits: see the comments at the beginning of data/repaired_lines.yaml and of the other sets.
The parent of each commit is scanned from its root without a configuration, as a user would do. A label is found if its
statement has a finding above note with its code, or with another accepted code. After the repair, a found line counts
as still reported if the lines that replaced it have findings with the same codes. Lines that remain behind a condition,
or that a caller avoids, are left out of this second count.

    python benchmarks/scan/repaired_lines.py CHECKOUTS REPORTS [--lines] [--set second]

Gives the tables of docs/accuracy/repaired.md. CHECKOUTS holds OWNER-NAME-SHA/before for each commit. With
OWNER-NAME-SHA/after, the state after the repair is scanned too. REPORTS keeps the report of each scan. If a scan takes
more than four minutes, only the labelled files are scanned instead.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).resolve().parents[1] / "data"
SCAN = (sys.executable, "-m", "graphsafe", "scan", "--no-cache", "-q")
LONGEST = 240
"The largest number of seconds for a scan from the root."


@dataclass(frozen=True, slots=True)
class Told:
    """The place of one finding, its code, and whether its level is above note."""

    path: str
    first: int
    last: int
    code: str
    loud: bool

    def touches(self, path: str, first: int, last: int) -> bool:
        return path == self.path and self.first <= last and first <= self.last


@dataclass(frozen=True, slots=True)
class Label:
    commit: Mapping[str, Any]
    line: Mapping[str, Any]

    @property
    def codes(self) -> set[str]:
        return {self.line["code"], *self.line.get("also_accept", ()), *self.line.get("also", ())}

    def group(self, kind: str) -> str:
        own = {"tier": self.commit["tier"], "repository": self.commit["repo"], "family": self.line["code"][:3]}
        return str(own.get(kind) or self.line[kind])

    def at(self, told: Iterable[Told]) -> list[Told]:
        """Return the findings on the statement. Findings about allocations are returned only if the label is about an
        allocation."""
        here = [t for t in told if t.touches(self.line["path"], *self.line["statement"])]
        return [t for t in here if t.code in self.codes or not t.code.startswith(("GS4", "GS9"))]

    def replaced(self) -> list[tuple[str, int]]:
        """Return the lines that have replaced a removed statement."""
        if self.line["repair"] in ("guarded", "bypassed"):
            return []
        same = {(self.line["path"], line) for line in self.line.get("same_text_in_repaired", ())}
        return [
            (a["path"], line)
            for a in self.line.get("after", ())
            for line in a["lines"]
            if (a["path"], line) not in same
        ]


@dataclass(frozen=True, slots=True)
class Score:
    label: Label
    found: bool
    any_code: bool
    with_notes: bool
    still: bool | None
    "Whether the line is still reported. It is None if it was not found or if nothing has replaced it."


def told_of(folder: Path, files: Iterable[str], report: Path) -> list[Told]:
    """Return the findings of a scan of `folder`. The folder is scanned only if `report` does not exist yet."""
    if not report.exists():
        scan = ("timeout", str(LONGEST), *SCAN, "-o", f"json={report.resolve()}")
        if subprocess.run([*scan, "."], cwd=folder, capture_output=True).returncode == 124:
            print(f"Through the labelled files alone: {report.stem}")
            subprocess.run([*SCAN, "-o", f"json={report.resolve()}", *files], cwd=folder, capture_output=True)
    findings = json.loads(report.read_text(encoding="utf-8"))["findings"]
    places = [(f["location"], f["code"], f["level"] != "note") for f in findings if f["suppressed"] is None]
    return [Told(at["path"], at["line"], at["end_line"], code, loud) for at, code, loud in places]


def scored(commit: Mapping[str, Any], checkouts: Path, reports: Path) -> list[Score]:
    named = checkouts.glob(commit["repo"].replace("/", "-") + "-*")
    folder = next(path for path in named if commit["sha"].startswith(path.name.rpartition("-")[2]))
    labels = [Label(commit, line) for line in commit["lines"]]
    files = sorted({label.line["path"] for label in labels})
    told = told_of(folder / "before", files, reports / f"{folder.name}-before.json")
    rows = [(label, label.at(told)) for label in labels]
    found = [any(t.loud and t.code in label.codes for t in here) for label, here in rows]
    replaced = [label.replaced() if is_found else [] for label, is_found in zip(labels, found, strict=True)]
    left = sorted({path for lines in replaced for path, _ in lines})
    repaired = folder / "after"
    after = told_of(repaired, left, reports / f"{folder.name}-after.json") if left and repaired.is_dir() else None
    scores: list[Score] = []
    for (label, here), is_found, lines in zip(rows, found, replaced, strict=True):
        told = [t for t in after or () if t.loud and t.code in label.codes]
        known = bool(lines) and after is not None
        still = any(t.touches(path, n, n) for t in told for path, n in lines) if known else None
        loud, right = any(t.loud for t in here), any(t.code in label.codes for t in here)
        scores.append(Score(label, is_found, loud, right, still))
    return scores


def row(title: str, scores: list[Score]) -> str:
    found, still = sum(s.found for s in scores), [s.still for s in scores if s.still is not None]
    return (
        f"| {title} | {found} of {len(scores)} ({found / len(scores):.2f}) | {sum(s.any_code for s in scores)} "
        f"| {sum(s.with_notes for s in scores)} | {sum(still)} of {len(still)} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--lines", action="store_true", help="also name each label, found or missed")
    parser.add_argument(
        "--set",
        choices=(
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
            "thirteenth",
            "fourteenth",
            "fifteenth",
            "sixteenth",
            "seventeenth",
            "eighteenth",
            "nineteenth",
            "twentieth",
            "twentyfirst",
            "twentythird",
        ),
        default="first",
        help="the set of labels",
    )
    options = parser.parse_args()
    options.reports.mkdir(parents=True, exist_ok=True)
    labels = DATA / ("repaired_lines.yaml" if options.set == "first" else f"repaired_lines_{options.set}.yaml")
    commits = yaml.safe_load(labels.read_text(encoding="utf-8"))
    scores = [score for commit in commits for score in scored(commit, options.checkouts, options.reports)]
    print("| | found with the code | with any code | with the code, notes too | of found ones, told after the repair |")
    print("|---|---|---|---|---|\n" + row("all", scores))
    for kind in ("tier", "family", "region", "hot", "repository"):
        for value in sorted({score.label.group(kind) for score in scores}):
            print(row(f"{kind} {value}", [score for score in scores if score.label.group(kind) == value]))
    for score in scores if options.lines else ():
        line = score.label.line
        state = "found " if score.found else "other " if score.any_code else "note  " if score.with_notes else "missed"
        after = " (told after)" if score.still else ""
        print(f"{state}{after} {score.label.commit['repo']} {line['path']}:{line['line']}: {line['code']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

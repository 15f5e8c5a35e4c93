"""Some 330 small programs, one or two for each form of hazard and each look-alike that scan promises to tell apart.

Their author had not read graphsafe. At first sight 211 of 317 labelled lines were found, and 35 other lines had a false
error. In named/*.txt, `=== name: what it shows` begins a program, `--- path` a file, and `#!GS702` marks a line with a
hazard; one of several codes is enough. now.json holds the lines that are found, and the lines with a false finding.
Some labels are doubtful, so a line that is not found is not an error of this test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import graphsafe

pytestmark = pytest.mark.child  # hundreds of scans

NAMED = Path(__file__).parent / "named"
QUICK = ("s2.txt", "s4.txt", "s8.txt", "s11.txt", "s13.txt")
"All groups of rules, and programs without a hazard."
_LABEL = re.compile(r"\s*#!(\S+)\s*$")


@dataclass
class Program:
    name: str
    files: dict[str, list[str]] = field(default_factory=dict)
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    "`path:line` -> the codes of which one has to be found there."


def programs(text: str) -> Iterator[Program]:
    program, lines = Program(""), []
    for line in text.split("\n"):
        if line.startswith("=== "):
            if program.files:
                yield program
            program = Program(line[4:].partition(":")[0].strip())
        elif line.startswith("--- "):
            path = line[4:].strip()
            lines = program.files[path] = []
        elif program.files:
            label = _LABEL.search(line)
            if label is not None:
                program.labels[f"{path}:{len(lines) + 1}"] = tuple(label[1].split(","))
            lines.append(_LABEL.sub("", line))
    yield program


def scanned(program: Program, folder: Path) -> tuple[list[str], list[str]]:
    """Return the labels that are found, and the other lines with a warning or an error."""
    for path, lines in program.files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines), encoding="utf-8")
    report = graphsafe.scan(folder, cache=False, jobs=1)
    found, noise = set(), set()
    for one in report.findings:
        at = one.location
        place = f"{Path(at.path).resolve().relative_to(folder.resolve()).as_posix()}:{at.line}"
        if one.code == "GS401":
            continue
        if place in program.labels:
            if one.code.startswith(program.labels[place]):
                found.add(place)
        elif one.level != "note":
            noise.add(f"{place} {one.code}")
    return sorted(found), sorted(noise)


@pytest.mark.parametrize(
    "file",
    [
        path.name if path.name in QUICK else pytest.param(path.name, marks=pytest.mark.slow)
        for path in sorted(NAMED.glob("*.txt"))
    ],
)
def test_no_hazard_is_lost_and_no_false_finding_is_new(file: str, tmp_path: Path) -> None:
    now = json.loads((NAMED / "now.json").read_text(encoding="utf-8"))
    for program in programs((NAMED / file).read_text(encoding="utf-8")):
        found, noise = scanned(program, tmp_path / program.name)
        known = now.get(program.name, {"found": [], "noise": []})
        assert set(known["found"]) <= set(found), program.name
        assert set(noise) <= set(known["noise"]), program.name

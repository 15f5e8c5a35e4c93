"""The modules of tests/scan/corpus as cases.

A project of the corpus is a package and, beside it, targets.py with a factory `build_NAME` for each of its modules.
frozen.yaml and untouched.yaml say what is true of them. `# guilty: NAME CODES` stands at the lines to blame, and
`# quiet: NAME` at the first line of every class or function of a sound module.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from .agreement import Case, Mark
from .catalogue import marks_in

CORPUS = Path(__file__).resolve().parents[1] / "scan" / "corpus"
PARTS = ("frozen", "untouched")
QUIET = re.compile(r"# quiet: (\w+)")
PLACES = ("forward", "outside")


@dataclass(frozen=True, slots=True)
class Extent:
    """Lines of a file, the last included."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Hazard:
    """A module of the corpus, or the sound form of one."""

    case: Case
    project: Path
    kind: str
    "The class of hazard."
    place: str
    "Where it stands: in or below the `forward` of an nn.Module, or outside."
    simulated: bool
    "Whether the simulated device can be expected to tell."
    body: tuple[Extent, ...]
    "Where a sound module is written; none for a hazard, whose lines to blame are the case's marks."

    @property
    def sound(self) -> bool:
        return self.case.expect == "ready"

    @property
    def packages(self) -> list[Path]:
        """What is scanned: the project without its targets."""
        return sorted(file.parent for file in self.project.glob("*/__init__.py"))


def hazards(part: str, corpus: Path = CORPUS) -> list[Hazard]:
    """Those of a part of the corpus."""
    found = []
    for project, verdicts in yaml.safe_load((corpus / f"{part}.yaml").read_text(encoding="utf-8")).items():
        folder = corpus / part / project
        marks, bodies = written_in(folder)
        for verdict, names in verdicts.items():
            for name, (kind, place, *words) in names.items():
                target = f"{folder / 'targets.py'}:build_{name}"
                case = Case(name, target, verdict, marks.get(name, ()), pure="pure" in words)
                found.append(Hazard(case, folder, kind, place, "gpu only" not in words, bodies.get(name, ())))
    return found


def written_in(folder: Path) -> tuple[dict[str, tuple[Mark, ...]], dict[str, tuple[Extent, ...]]]:
    """The lines to blame and the bodies of sound modules, by the modules' names."""
    marks: dict[str, tuple[Mark, ...]] = {}
    bodies: dict[str, tuple[Extent, ...]] = {}
    for file in sorted(folder.rglob("*.py")):
        for name, lines in marks_in(file).items():
            marks[name] = (*marks.get(name, ()), *lines)
        for name, extent in extents_in(file):
            bodies[name] = (*bodies.get(name, ()), extent)
    return marks, bodies


def extents_in(file: Path) -> list[tuple[str, Extent]]:
    """A comment of its own line speaks of the next class or function; another of the one that begins on its line."""
    text = file.read_text(encoding="utf-8")
    begins = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            begins[first] = Extent(str(file), first, node.end_lineno or first)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for name in QUIET.findall(line):
            found.append((name, begins[number + line.lstrip().startswith("#")]))
    return found

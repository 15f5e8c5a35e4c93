"""The modules beside this file as cases: modules.yaml says what is true of each, `# guilty:` comments which line is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import yaml

from .agreement import Case, Mark

HERE = Path(__file__).resolve().parent
GUILTY = re.compile(r"# guilty: (\w+) ([\w|]+)")


@dataclass(frozen=True, slots=True)
class Module:
    """One entry of modules.yaml."""

    case: Case
    simulated: bool
    "Whether the simulated device can be expected to tell."


def marks_in(file: Path) -> dict[str, tuple[Mark, ...]]:
    found: dict[str, tuple[Mark, ...]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        for name, codes in GUILTY.findall(line):
            found[name] = (*found.get(name, ()), Mark(str(file), number, frozenset(codes.split("|"))))
    return found


def modules() -> list[Module]:
    new = tuple(int(part) for part in version("torch").split(".")[:2]) >= (2, 12)
    entries = yaml.safe_load((HERE / "modules.yaml").read_text(encoding="utf-8"))
    found = []
    for file, verdicts in entries.items():
        path = HERE / "modules" / file
        marks = marks_in(path)
        for verdict, names in verdicts.items():
            for name, words in names.items():
                if new and "torch<2.12" in words:
                    continue
                target = f"{path}:build_{name}"
                case = Case(name, target, verdict, marks.get(name, ()), pure="pure" in words)
                found.append(Module(case, "gpu only" not in words))
    return found

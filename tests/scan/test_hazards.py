"""The corpus of small modules is what it says it is, and what counts what scan finds of it counts right.

Whether its labels are true is asked on a GPU: benchmarks/scan/natural_style_labels.py.
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from graphsafe.rulebook.book import load_rulebook

from .benchmark import benchmark

natural_style = benchmark("scan/natural_style")
hazards = natural_style.hazards
ALL = [hazard for part in hazards.PARTS for hazard in hazards.hazards(part)]
PROJECTS = sorted({hazard.project for hazard in ALL})


def targets_of(project: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(project)
    spec = importlib.util.spec_from_file_location(f"targets_of_{project.name}", project / "targets.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of(project: Path) -> list[Any]:
    return [hazard for hazard in ALL if hazard.project == project]


def test_names_are_used_once() -> None:
    names = [hazard.case.name for hazard in ALL]
    assert sorted(names) == sorted(set(names))


def test_a_hazard_has_lines_to_blame_and_a_sound_module_its_extent() -> None:
    codes = load_rulebook().rules.keys()
    for hazard in ALL:
        assert hazard.place in hazards.PLACES, hazard
        assert bool(hazard.case.marks) != hazard.sound, hazard
        assert bool(hazard.body) == hazard.sound, hazard
        assert all(mark.codes <= codes for mark in hazard.case.marks), hazard


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: f"{project.parent.name}-{project.name}")
def test_comments_and_targets_agree(project: Path) -> None:
    names = {hazard.case.name for hazard in of(project)}
    marks, bodies = hazards.written_in(project)
    assert marks.keys() | bodies.keys() == names


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: f"{project.parent.name}-{project.name}")
def test_every_module_steps_on_the_host(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    module = targets_of(project, monkeypatch)
    builders = {name.removeprefix("build_"): make for name, make in inspect.getmembers(module) if "build_" in name}
    assert builders.keys() == {hazard.case.name for hazard in of(project)}
    for make in builders.values():
        step, args = make(torch.device("cpu"))
        for _ in range(2):
            step(*args)


PACKAGE = """
from torch import nn

class Reading(nn.Module):
    def forward(self, x):
        return x * x.sum().item()  # guilty: read GS101

class Other(nn.Module):
    def forward(self, x):
        return x * x.sum().item()  # guilty: other GS102

class Hidden:
    def load_weights(self, x):
        return x * x.sum().item()  # guilty: hidden GS101

# quiet: loud
class Loud(nn.Module):
    def forward(self, x):
        return x * x.sum().item()

class Silent(nn.Module):
    def forward(self, x):  # quiet: silent
        return x * 2
"""
LABELS = """
project:
  not-ready:
    read: [device read, forward]
    other: [branch, forward]
    hidden: [device read, outside]
  ready:
    loud: [device read, forward]
    silent: [device read, forward]
"""


def test_what_scan_finds_of_a_corpus(tmp_path: Path) -> None:
    package = tmp_path / "frozen" / "project" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "layers.py").write_text(PACKAGE, encoding="utf-8")
    (tmp_path / "frozen.yaml").write_text(LABELS, encoding="utf-8")
    told = natural_style.outcomes(hazards.hazards("frozen", tmp_path))
    assert [(one.hazard.case.name, one.found, one.line, one.noise) for one in told] == [
        ("read", True, True, ()),
        ("other", False, True, ()),
        ("hidden", False, False, ()),
        ("loud", False, False, ("GS101 layers.py:19",)),
        ("silent", False, False, ()),
    ]
    said = {line.split("  ")[0]: line.split() for line in natural_style.table(told).splitlines() if line}
    assert said["all"] == ["all", *"1 of 3 (33.3 %)".split(), *"2 of 3 (66.7 %)".split()]
    assert said["device read"][2:5] == ["1", "of", "2"]
    assert said["noisy sound modules: 1 of 2 (50.0 %)"]
    assert natural_style.names(told).splitlines() == [
        "code   project/other: layers.py:10",
        "missed project/hidden: layers.py:14",
        "noisy  project/loud: GS101 layers.py:19",
    ]

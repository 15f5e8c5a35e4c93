"""What the configuration names and the project does not have is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import graphsafe
from graphsafe.config import load_config
from graphsafe.errors import RequestError
from graphsafe.scan.api import scan_paths

ENGINE = """\
from torch import nn

class Runner(nn.Module):
    def forward(self, x):
        return x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "runner.py").write_text(ENGINE)
    (tmp_path / "engine" / "__init__.py").write_text("")
    return tmp_path


def unmatched(project: Path, configuration: str, *paths: Path, cache: Path | None = None) -> list[str]:
    (project / "graphsafe.toml").write_text(configuration)
    report = scan_paths([*paths] or [project], load_config(project), cache=cache)
    return [limit.what for limit in report.limits if limit.kind == "unmatched-setting"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ('hot-paths = ["engine.runner:Runner.forward"]', []),
        ('hot-paths = ["engine.runner:Runner.*", "engine/", "*:*.forward"]', []),
        ('hot-paths = ["engine.runner:Runner.step"]', ["hot-paths engine.runner:Runner.step"]),
        ('cold-paths = ["engin/"]', ["cold-paths engin/"]),
        ('[per-file-ignores]\n"engine/*" = ["GS1"]\n"test/*" = ["GS1"]', ["per-file-ignores test/*"]),
    ],
)
def test_patterns_that_match_nothing(project: Path, setting: str, told: list[str]) -> None:
    assert unmatched(project, setting) == told


def test_a_module_may_lie_in_a_folder_without_init(project: Path) -> None:
    (project / "engine" / "__init__.py").unlink()
    assert unmatched(project, 'hot-paths = ["engine.runner:Runner.forward"]') == []


def test_one_file_of_a_project_does_not_show_what_is_missing(project: Path) -> None:
    assert unmatched(project, 'hot-paths = ["gone/"]', project / "engine" / "runner.py") == []


def test_it_is_known_with_a_cache_too(project: Path, tmp_path: Path) -> None:
    cache, setting = tmp_path / "cache", 'cold-paths = ["late/"]'
    assert unmatched(project, setting, cache=cache) == unmatched(project, setting, cache=cache) == ["cold-paths late/"]
    (project / "late").mkdir()
    (project / "late" / "code.py").write_text("")
    assert unmatched(project, setting, cache=cache) == []


@pytest.mark.child
def test_the_command_says_so_and_refuses_notebooks(project: Path) -> None:
    (project / "graphsafe.toml").write_text('hot-paths = ["gone/"]')
    (project / "look.ipynb").write_text('{"cells": []}')
    command = [sys.executable, "-m", "graphsafe", "scan", "--no-cache", ".", "look.ipynb"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr.splitlines() == [
        "graphsafe: look.ipynb: notebooks are not read; scan what `jupyter nbconvert --to script` makes of it",
        "graphsafe: hot-paths gone/: no function of the project has such a name",
    ]
    assert done.returncode == 2


def test_a_notebook_is_refused_in_python_too(project: Path) -> None:
    (project / "look.ipynb").write_text('{"cells": []}')
    with pytest.raises(RequestError, match="notebooks are not read"):
        graphsafe.scan("look.ipynb")

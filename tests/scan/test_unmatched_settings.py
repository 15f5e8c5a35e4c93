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
        ('hot-paths = ["engine"]', ["hot-paths engine"]),
        ('cold-paths = ["engin/"]', ["cold-paths engin/"]),
        ('[per-file-ignores]\n"engine/*" = ["GS1"]\n"test/*" = ["GS1"]', ["per-file-ignores test/*"]),
        ('[targets.step]\nfactory = "engine/runner.py:Runner"', []),
        ('[targets.step]\nfactory = "engine.runner:Runner"', []),
        ('[targets.step]\nfactory = "engine/runner.py:make"', ["targets.step engine/runner.py:make"]),
        ('[targets.step]\nfactory = "engine.runner:make"', ["targets.step engine.runner:make"]),
        ('[targets.step]\nfactory = "runner.py:make"', ["targets.step runner.py:make"]),
        ('[targets.step]\nfactory = "engine.model:make"', ["targets.step engine.model:make"]),
    ],
)
def test_patterns_that_match_nothing(project: Path, setting: str, told: list[str]) -> None:
    assert unmatched(project, setting) == told


def test_why_the_step_of_a_target_is_not_read(project: Path) -> None:
    (project / "graphsafe.toml").write_text(
        'exclude = ["engine/old.py"]\n[targets]\n'
        + "".join(f'{n} = {{ factory = "engine/{n}.py:make" }}\n' for n in ("gone", "old", "runner"))
    )
    (project / "engine" / "old.py").write_text("def make(device): ...\n")
    limits = [
        limit for limit in scan_paths([project], load_config(project)).limits if limit.kind == "unmatched-setting"
    ]
    assert [limit.why for limit in limits] == [
        "no file of the project has such a path, so its step is not read",
        "its file is ignored or excluded, so its step is not read",
        "it has no function make, so its step is not read",
    ]


def test_the_factory_of_a_target_may_be_imported_into_its_file(project: Path) -> None:
    (project / "engine" / "made.py").write_text(
        "import torch\n\ndef make(device):\n    x = torch.zeros(4, device=device)\n"
        "    return (lambda: x.sum().item()), ()\n"
    )
    (project / "engine" / "targets.py").write_text("from engine.made import make\n")
    assert unmatched(project, '[targets.step]\nfactory = "engine/targets.py:make"') == []
    report = scan_paths([project], load_config(project))
    assert [(finding.code, finding.location.line) for finding in report.findings] == [("GS101", 5)]


def test_a_module_may_lie_in_a_folder_without_init(project: Path) -> None:
    (project / "engine" / "__init__.py").unlink()
    assert unmatched(project, 'hot-paths = ["engine.runner:Runner.forward"]') == []


def test_one_file_of_a_project_does_not_show_what_is_missing(project: Path) -> None:
    assert unmatched(project, 'hot-paths = ["gone/"]', project / "engine" / "runner.py") == []


def test_it_is_known_with_a_cache_too(project: Path, tmp_path: Path) -> None:
    cache, setting = tmp_path / "cache", 'cold-paths = ["late/"]'
    assert unmatched(project, setting, cache=cache) == unmatched(project, setting, cache=cache) == ["cold-paths late/"]
    (project / "late").mkdir()
    (project / "late" / "code.py").write_text("def late(): pass\n")
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

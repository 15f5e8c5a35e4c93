"""The commit hooks, run by the `pre-commit` program on a small repository. This program installs graphsafe for them.

The tests of docs/ci.md run the same hooks with an installed graphsafe, which is faster.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = [pytest.mark.child, pytest.mark.slow]

CHECKOUT = Path(__file__).parents[1]
SCRIPTS = Path(sys.executable).parent
HOT = """\
import torch
from torch import nn

from ops import scaled


class Step(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(x, x.sum())
"""
BAD_OPS = "def scaled(x, total):\n    return x * total.item()\n"
GOOD_OPS = "def scaled(x, total):\n    return x * total\n"
TARGET = """\
import torch
from model import Step


def build(device):
    return Step().to(device), (torch.randn(4, device=device),)
"""
CONFIG = '[tool.graphsafe.targets.step]\nfactory = "target.py:build"\ndevice = "sim"\n'


ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **{f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "a@example.com" for who in ("AUTHOR", "COMMITTER")},
}


class Repository:
    """A git repository in `folder`, with the environments of pre-commit in `home`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self._environment = {**ENVIRONMENT, "PRE_COMMIT_HOME": str(home)}
        self.run("git", "init", "-q", "-b", "main")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True)

    def commit(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        self.run("git", "add", *files)
        self.run("git", "commit", "-q", "--no-verify", "-m", "a change")

    def hook(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("pre-commit", "run", name, "--verbose", *arguments)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the folder of pre-commit's environments, once for this module."""
    return tmp_path_factory.mktemp("pre-commit")


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory, home: Path) -> str:
    """Make a configuration with the hooks of the checkout, including uncommitted changes."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT, env=ENVIRONMENT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("the files of the checkout are asked of git, and it is no git repository")
    published = Repository(tmp_path_factory.mktemp("published"), home)
    for name in listed.stdout.splitlines():
        if (CHECKOUT / name).is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            (published.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, published.folder / name)
    published.run("git", "add", "-f", ".")
    published.run("git", "commit", "-q", "-m", "the checkout")
    revision = published.run("git", "rev-parse", "HEAD").stdout.strip()
    ids = "graphsafe-scan", "graphsafe-capture"
    return f"repos:\n- repo: {published.folder}\n  rev: {revision}\n  hooks:\n" + "".join(
        f"  - id: {one}\n" for one in ids
    )


@pytest.fixture
def repository(tmp_path: Path, home: Path, hooks: str) -> Repository:
    """Make a project whose commits run the hooks."""
    repository = Repository(tmp_path, home)
    project = {"pyproject.toml": CONFIG, "target.py": TARGET, "model.py": HOT, "ops.py": BAD_OPS}
    repository.commit({".pre-commit-config.yaml": hooks, **project})
    return repository


def test_the_scan_hook_stops_a_commit_and_lets_the_repaired_one_pass(repository: Repository) -> None:
    stopped = repository.hook("graphsafe-scan", "--files", "ops.py")
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert "ops.py:2" in stopped.stdout and "GS101" in stopped.stdout
    assert "exit code: 1" in stopped.stdout

    repository.commit({"ops.py": GOOD_OPS})
    passed = repository.hook("graphsafe-scan", "--all-files")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "Passed" in passed.stdout


def test_a_comment_in_a_file_with_known_findings_passes_the_hook(repository: Repository) -> None:
    bad = BAD_OPS + "\n\ndef halved(x):\n    return x / 2\n"
    hot = HOT.replace("import scaled", "import halved, scaled").replace(
        "scaled(x, x.sum())", "scaled(halved(x), x.sum())"
    )
    repository.commit({"ops.py": bad, "model.py": hot})
    repository.run("graphsafe", "scan", ".", "--write-baseline")
    repository.commit({"graphsafe-baseline.toml": (repository.folder / "graphsafe-baseline.toml").read_text()})

    repository.commit({"ops.py": f"# A comment.\n{bad}"})
    passed = repository.hook("graphsafe-scan", "--files", "ops.py")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "1 in the baseline" in passed.stdout

    repository.commit({"ops.py": bad.replace("x / 2", "x / x.max().item()")})
    stopped = repository.hook("graphsafe-scan", "--files", "ops.py")
    assert stopped.returncode == 1
    assert "ops.py:6" in stopped.stdout and "ops.py:2" not in stopped.stdout


def test_the_capture_hook_runs_the_configured_targets_before_a_push(repository: Repository) -> None:
    stopped = repository.hook("graphsafe-capture", "--hook-stage", "pre-push", "--all-files")
    assert stopped.returncode == 1, stopped.stdout + stopped.stderr
    assert "not-ready" in stopped.stdout and "GS101" in stopped.stdout

    repository.commit({"ops.py": GOOD_OPS})
    passed = repository.hook("graphsafe-capture", "--hook-stage", "pre-push", "--all-files")
    assert passed.returncode == 0, passed.stdout + passed.stderr

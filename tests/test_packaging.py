"""The package as users get it: installed from a wheel into an environment without other packages."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from graphsafe.version import __version__

pytestmark = pytest.mark.child

CHECKOUT = Path(__file__).parents[1]
HOT = "from torch import nn\nclass Step(nn.Module):\n    def forward(self, x):\n        return x * x.sum().item()\n"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a package index of files, with the wheel and the sdist of this checkout in simple/graphsafe."""
    folder = tmp_path_factory.mktemp("index") / "simple" / "graphsafe"
    folder.mkdir(parents=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, check=True, capture_output=True)
    links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in sorted(folder.iterdir()))
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>", encoding="utf-8")
    return folder.parent


@pytest.fixture(scope="module")
def wheel(index: Path) -> Path:
    return next(index.glob("graphsafe/*.whl"))


@pytest.fixture(scope="module")
def sdist(index: Path) -> Path:
    return next(index.glob("graphsafe/*.tar.gz"))


def test_twine_finds_nothing_to_complain_about(wheel: Path, sdist: Path) -> None:
    check = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    checked = subprocess.run(check, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    built = subprocess.run([*command, str(sdist)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert ZipFile(next(tmp_path.glob("*.whl"))).namelist() == ZipFile(wheel).namelist()


def test_the_wheel_holds_the_compiled_rules_and_the_op_table(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    tables = {"graphsafe/_rules/ops/torch.json", "graphsafe/_rules/ops/aten-known.json"}
    assert {"graphsafe/_rules/rulebook.json", "graphsafe/py.typed"} <= names
    assert {name for name in names if name.startswith("graphsafe/_rules/ops/")} == tables
    assert not any(name.startswith(("tests/", "examples/")) for name in names)


def test_torch_is_only_an_extra(wheel: Path) -> None:
    archive = ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    fields = Parser().parsestr(archive.read(metadata).decode("utf-8"))
    torch = [need for need in fields.get_all("Requires-Dist", []) if need.startswith("torch")]
    assert torch and all("extra ==" in need for need in torch)
    assert {"capture", "test", "docs"} <= set(fields.get_all("Provides-Extra", []))


@pytest.mark.slow
def test_installed_from_an_index_it_works_without_the_checkout_and_without_torch(index: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    pip = [sys.executable, "-m", "pip", "--python", str(tmp_path / "venv"), "--disable-pip-version-check"]
    named = f"graphsafe=={__version__}"
    installed = run(*pip, "install", "--quiet", "--no-compile", "--extra-index-url", index.as_uri(), named)
    assert installed.returncode == 0, installed.stderr
    listed = run(*pip, "list", "--format", "freeze").stdout.lower()
    assert "graphsafe==" in listed and "torch" not in listed

    (tmp_path / "hot.py").write_text(HOT, encoding="utf-8")
    scanned = run(scripts / "graphsafe", "scan", "hot.py", "--format", "concise")
    assert scanned.returncode == 1, scanned.stderr
    assert "hot.py:4:" in scanned.stdout and "GS101" in scanned.stdout
    assert run(scripts / "graphsafe", "explain", "E906").stdout.startswith("# E906")

    captured = run(scripts / "graphsafe", "capture", "hot.py:build")
    assert captured.returncode == 2
    assert "graphsafe[capture]" in captured.stderr and captured.stderr.count("\n") == 1

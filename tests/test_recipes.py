"""The Python blocks of docs/pytest.md and docs/capture.md: each is a file, which is run as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cloudpickle")

from graphsafe.cli import main

DOCS = Path(__file__).parents[1] / "docs"
pytestmark = [pytest.mark.child, pytest.mark.slow]


def files_of(page: str) -> dict[str, str]:
    """Return the text of each block that begins with a file name, by this name."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return {name: f"# {name}\n{code}" for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.S)}


def test_the_blocks_about_tests(tmp_path: Path) -> None:
    files = files_of("pytest.md")
    assert set(files) == {"test_decode.py", "test_layer.py", "test_step.py", "test_runner.py"}
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    plugin = [] if "graphsafe" in entry_points(group="pytest11").names else ["-p", "graphsafe.pytest_plugin"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "5 passed" in ran.stdout


@pytest.mark.parametrize("name", ["engine_target.py", "training_target.py", "hf_target.py"])
def test_a_whole_factory_is_ready(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "hf_target.py" and find_spec("transformers") is None:
        pytest.skip("needs transformers")
    (tmp_path / name).write_text(files_of("capture.md")[name])
    monkeypatch.chdir(tmp_path)
    assert main(["capture", f"{name}:build", "--device", "sim", "-q"]) == 0, capsys.readouterr().out


def test_pages_name_only_files_that_are_there() -> None:
    for page in ("pytest.md", "lock.md", "troubleshooting.md", "capture.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([\w-]+\.md)", text):
            assert (DOCS / link).exists() or link == "rule-files.md", f"{page}: {link}"

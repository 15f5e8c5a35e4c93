"""Ctrl-C before the command line is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import graphsafe
from graphsafe.report.schema import report_schema

SIGNALLED = """\
import runpy, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

# A shell ignores Ctrl-C for what it starts in the background, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
sys.path.insert(0, {source!r})
sys.argv = ["graphsafe", *{words!r}]
runpy.run_module("graphsafe", run_name="__main__")
"""
pytestmark = pytest.mark.child
IMPORTED = ["graphsafe.cli", "click", "graphsafe.commands.scan"]
STEP = "import torch\n\n\ndef build(device):\n    return torch.relu, (torch.ones(3, device=device),)\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> None:
    (tmp_path / "graphsafe.toml").touch()
    (tmp_path / "step.py").write_text(STEP, encoding="utf-8")


def interrupted(folder: Path, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that Ctrl-C reaches while it imports `name`."""
    code = SIGNALLED.format(name=name, words=words, source=str(Path(graphsafe.__file__).parents[1]))
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("name", IMPORTED)
def test_an_interrupt_while_the_command_is_imported_is_one_line(tmp_path: Path, name: str) -> None:
    ended = interrupted(tmp_path, name, "scan", ".")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "graphsafe: interrupted\n")
    assert {path.name for path in tmp_path.iterdir()} == {"graphsafe.toml", "step.py"}


LATER = ["graphsafe.capture.request", "graphsafe.capture.parent.ranks.launched"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals cannot be held there")
@pytest.mark.parametrize(
    ("name", "output"),
    [
        *((name, ()) for name in ("graphsafe.cli", *LATER)),
        ("graphsafe.cli", ("-o", "own.json")),
        *(pytest.param(name, (), marks=pytest.mark.slow) for name in IMPORTED[1:]),
        *(pytest.param(name, ("-o", "own.json"), marks=pytest.mark.slow) for name in (*IMPORTED[1:], *LATER)),
    ],
    ids=lambda one: one if isinstance(one, str) else "".join(one[:1]) or "default",
)
def test_an_interrupt_while_capture_is_imported_gives_its_report(
    tmp_path: Path, name: str, output: tuple[str, ...]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    ended = interrupted(tmp_path, name, "capture", "step.py:build", "--device", "sim", *output)
    assert (ended.returncode, ended.stderr) == (130, "graphsafe: interrupted\n")
    report = json.loads((tmp_path / (output[1] if output else "graphsafe-report.json")).read_text(encoding="utf-8"))
    jsonschema.validate(report, report_schema())
    assert (report["verdict"], report["target"]) == ("inconclusive", "step.py:build")
    assert [limit["kind"] for limit in report["limits"]] == ["interrupted"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")
def test_an_interrupted_capture_writes_nowhere_else(tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    (tmp_path / "graphsafe-report.json").symlink_to(outside)
    ended = interrupted(tmp_path, "click", "capture", "step.py:build", "--device", "sim")
    assert ended.returncode == 2 and "graphsafe-report.json: points outside" in ended.stderr
    assert not outside.exists()

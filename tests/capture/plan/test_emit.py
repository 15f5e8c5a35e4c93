"""`--emit`: the code that applies a plan, what is said where there is none, and that it gives what eager steps give."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import graphsafe
from graphsafe.capture.plan.shared.marks import is_emitted
from graphsafe.console import check_writable

from ..conftest import ROOT, TARGETS, Answer, Report

pytestmark = [pytest.mark.child, pytest.mark.slow]

FILE = TARGETS / "planned.py"
SIM = ("--device", "sim")
Command = Callable[..., Answer]
HAS_PACKAGE = importlib.util.find_spec("breakable_cuda_graphs") is not None
needs_package = pytest.mark.skipif(not HAS_PACKAGE, reason="needs breakable-cuda-graphs")


def emit_limits(report: Report | None) -> list[str]:
    assert report is not None
    return [limit["why"] for limit in report["limits"] if limit["kind"] == "emit"]


def test_code_names_each_break_and_its_cause_and_needs_no_graphsafe(tmp_path: Path, command: Command) -> None:
    answer = command(f"{FILE}:growing_cache", *SIM, "--emit", "plan.py")
    assert answer.code == 1 and emit_limits(answer.report) == []
    code = (tmp_path / "plan.py").read_text(encoding="utf-8")
    check_writable(tmp_path / "plan.py", "--emit")  # the next plan may replace it
    tree = ast.parse(code)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert "planned" in imported and not any(name.startswith("graphsafe") for name in imported)
    modules = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = [alias.name for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names]
    assert len(set(modules)) == len(modules) and len(set(names)) == len(names)
    assert "# Eager: GS402, `keys` changes in every step" in code
    assert "_replace(planned.GrowingCache.attend, GrowingCache_attend)" in code
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"apply", "capture", "GrowingCache_attend"} <= functions


def test_what_cannot_be_emitted_is_said(tmp_path: Path, command: Command) -> None:
    report = command(f"{FILE}:rebinding", *SIM, "--emit", "plan.py").report
    assert report is not None and report["plan"]["verified"]
    (why,) = emit_limits(report)
    assert why.startswith("no code was written: ") and "assigns a variable of the function around it" in why
    assert not (tmp_path / "plan.py").exists()


@pytest.mark.parametrize(
    ("engine", "mark"), [("vllm", "@eager_break_during_capture"), ("sglang", "@eager_on_graph(True)")]
)
def test_marks_for_an_engine(engine: str, mark: str, tmp_path: Path, command: Command) -> None:
    command(f"{FILE}:stack", *SIM, "--emit", "marks.txt", "--emit-for", engine)
    text = (tmp_path / "marks.txt").read_text(encoding="utf-8")
    assert is_emitted(text)
    assert text.count(mark) == 1 and "Block.load" in text and "GS201" in text
    ends = [line for line in text.splitlines() if line.startswith("# Mark")]
    assert len(ends) == 2 and all(line.endswith(".") for line in ends)  # no sentence goes on in the next line
    assert set(map(type, ast.parse(text).body)) == set()  # a scan of the project reads this file, too


@needs_package
@pytest.mark.parametrize(
    "target",
    [
        f"{FILE}:stack",
        f"{FILE}:closure",
        f"{ROOT / 'examples' / 'decoder_bad.py'}:build_layer",
        f"{ROOT / 'tests' / 'gpu' / 'modules' / 'training.py'}:build_adam_on_host",
        f"{ROOT / 'tests' / 'gpu' / 'modules' / 'draws.py'}:build_private_noise",
    ],
    ids=lambda target: target.rpartition(":")[2],
)
def test_emitted_code_gives_what_eager_steps_give(target: str, tmp_path: Path, command: Command) -> None:
    answer = command(target, *SIM, "--emit", "plan.py", "--check")
    report = answer.report
    assert report is not None and report["plan"]["verified"], report
    assert "the plan's code was run, and gave the results of eager steps" in answer.err
    assert emit_limits(report) == []
    assert (tmp_path / "plan.py").exists()


@needs_package
def test_emitted_code_replays_no_empty_graph(tmp_path: Path, command: Command) -> None:
    """Two breaks follow each other, and one ends the step; `graphsafe run` has nothing to say about the code."""
    answer = command(f"{FILE}:neighbours", *SIM, "--emit", "plan.py")
    assert emit_limits(answer.report) == []
    (tmp_path / "main.py").write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(TARGETS)!r})\n"
        "import planned, plan\n"
        "model, args = planned.neighbours(torch.device('cuda'))\n"
        "inputs = [torch.randn(4, 8, device='cuda') for _ in range(3)]\n"
        "with torch.no_grad():\n"
        "    expected = [model(one).cpu() for one in inputs]\n"
        "    step = plan.capture(model, args)\n"
        "    for one, right in zip(inputs, expected):\n"
        "        assert torch.equal(step(one).cpu(), right)\n",
        encoding="utf-8",
    )
    run = [sys.executable, "-W", "error", "-m", "graphsafe", "run", "--fail", *SIM, "-o", "ledger.json", "--"]
    done = subprocess.run([*run, sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The CUDA Graph is empty" not in done.stderr
    (process,) = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))["processes"]
    assert [bool(one["nodes"]) for one in process["graphs"]] == [True, False, True, False]
    assert [one["replays"] > 0 for one in process["graphs"]] == [True, False, True, False]


@needs_package
def test_the_check_finds_code_that_is_wrong(tmp_path: Path, command: Command) -> None:
    """Emitted code with its copies left out: replays then keep what the first pass gave."""
    spoiled = tmp_path / "sitecustomize.py"
    spoiled.write_text(
        "import pathlib\n"
        "read = pathlib.Path.read_text\n"
        "def read_text(self, *args, **kwargs):\n"
        "    text = read(self, *args, **kwargs)\n"
        "    if self.name == 'copies.py':\n"
        "        text = text.replace('target.copy_(source)', 'pass')\n"
        "    return text\n"
        "pathlib.Path.read_text = read_text\n",
        encoding="utf-8",
    )
    path = f"{tmp_path}:{':'.join(part for part in sys.path if part)}"
    answer = command(f"{FILE}:stack", *SIM, "--emit", "plan.py", "--check", env={"PYTHONPATH": path})
    assert any("differ from the reference" in why for why in emit_limits(answer.report))
    assert "the plan's code was run" not in answer.err


@needs_package
def test_a_step_that_is_ready_has_no_code_to_check(tmp_path: Path, command: Command) -> None:
    (tmp_path / "ready.py").write_text(
        "import torch\n\ndef build(device):\n    return torch.neg, (torch.randn(4, device=device),)\n"
    )
    answer = command("ready.py:build", *SIM, "--check")
    assert answer.code == 0 and "the plan's code was run" not in answer.err
    assert emit_limits(answer.report) == ["no code was checked: the step is ready: one graph"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--emit-for", "vllm"], "--emit-for needs --emit FILE"),
        (["--emit", "no/such/folder/plan.py"], "cannot be written"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], text: str, command: Command) -> None:
    answer = command(f"{FILE}:stack", *SIM, *options)
    assert answer.code == 2 and text in answer.err


def test_without_the_package_the_check_says_what_to_install(tmp_path: Path) -> None:
    script = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'breakable_cuda_graphs' else find(name, *rest)\n"
        "import sys\n"
        "from graphsafe.cli import run\n"
        "sys.exit(run())\n"
    )
    command = [sys.executable, "-c", script, "capture", f"{FILE}:stack", "--device", "sim", "--check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and 'pip install "graphsafe[plan]"' in done.stderr


def test_as_a_call() -> None:
    planned = graphsafe.plan(f"{FILE}:growing_cache", "sim")
    assert planned.report.verdict == "ready-with-breaks"
    assert planned.code is not None and "def GrowingCache_attend" in planned.code
    assert graphsafe.plan(f"{FILE}:all_read", "sim").code is None


@needs_package
def test_the_code_is_applied_to_the_target_although_a_file_beside_the_program_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "planned.py").write_text("", encoding="utf-8")
    script = (
        "import sys, graphsafe\n"
        f"made = graphsafe.plan({f'{FILE}:growing_cache'!r}, 'sim')\n"
        "made.apply()\n"
        f"assert sys.modules['planned'].__file__ == {str(FILE)!r} and {str(FILE.parent)!r} not in sys.path\n"
        "del sys.modules['planned']\n"
        "import planned\n"
        "made.apply()\n"
    )
    (tmp_path / "main.py").write_text(script, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    run = [sys.executable, "main.py"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.strip().endswith("the module planned is already imported from " + str(tmp_path / "planned.py"))

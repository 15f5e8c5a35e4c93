"""The doors into vLLM and SGLang, against stand-ins that load plugins as the engines do: each entry point, without
arguments, in every process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from graphsafe.files import read_regular
from tests.conftest import ValidReport

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.child
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

ENGINE = """
import os, subprocess, sys
from importlib.metadata import EntryPoint

def worker():
    for _ in range(2):  # vLLM: plugins may be loaded several times
        EntryPoint("graphsafe", {value!r}, {group!r}).load()()
    import torch
    x = torch.zeros(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()

if sys.argv[1:]:
    worker()
else:
    import torch
    clean = {{**os.environ, "PYTHONPATH": {path!r}}}
    sys.exit(subprocess.run([sys.executable, __file__, "worker"], env=clean).returncode)
"""


def entry_points() -> list[EntryPoint]:
    project = tomllib.loads(read_regular(PROJECT, 1_000_000).decode())["project"]
    groups = ("vllm.general_plugins", "sglang.srt.plugins")
    return [
        EntryPoint(name, value, group) for group in groups for name, value in project["entry-points"][group].items()
    ]


def test_there_is_a_door_for_each_engine() -> None:
    assert [(one.name, one.group) for one in entry_points()] == [
        ("graphsafe", "vllm.general_plugins"),
        ("graphsafe", "sglang.srt.plugins"),
    ]


def test_without_a_run_a_door_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHSAFE_RUN", raising=False)
    script = "import sys; from graphsafe.run.doors import enter; enter(); sys.exit('torch' in sys.modules)"
    for door in entry_points():
        assert door.load()() is None
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


BEFORE_TORCH = {
    "an engine's door": "from graphsafe.run.doors import enter; enter()",
    "a watch": "import graphsafe; graphsafe.watch(device='sim').__enter__()",
}


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, id=name, marks=pytest.mark.slow if name == "a watch" else ())
        for name, first in BEFORE_TORCH.items()
    ],
)
def test_graphsafe_may_be_imported_before_torch(first: str, tmp_path: Path, valid_report: ValidReport) -> None:
    program = f"{first}\nimport torch\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n  pass"
    command = [sys.executable, "-m", "graphsafe", "run", "--device", "sim", "--", sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "not watched" not in ran.stderr
    ledger = valid_report((tmp_path / "graphsafe-ledger.json").read_text(encoding="utf-8"))
    assert [len(one["graphs"]) for one in ledger["processes"]] == [1]


@pytest.mark.slow
def test_a_worker_with_another_path_comes_in_by_the_door(tmp_path: Path, valid_report: ValidReport) -> None:
    door = entry_points()[0]
    source = ENGINE.format(value=door.value, group=door.group, path=os.environ.get("PYTHONPATH", ""))
    (tmp_path / "engine.py").write_text(textwrap.dedent(source), encoding="utf-8")
    command = [sys.executable, "-m", "graphsafe", "run", "--device", "sim", "--", sys.executable, "engine.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    ledger = valid_report((tmp_path / "graphsafe-ledger.json").read_text(encoding="utf-8"))
    told = [(one["name"], one["started_by"], len(one["graphs"])) for one in ledger["processes"]]
    assert told == [("0", None, 0), ("0.1", "0", 1)]

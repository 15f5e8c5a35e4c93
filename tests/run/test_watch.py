"""`graphsafe.watch()` and `graphsafe.ledger()`: the ledger of the process that asks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import graphsafe
from graphsafe.run.part import note_start, read_parts

pytestmark = pytest.mark.child
WATCHED = """
import json

import graphsafe, torch
from torch import nn

def serve(model, x):
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        out = model(x)
    graph.replay()
    return graph

replay, registering = torch.cuda.CUDAGraph.replay, dict(nn.modules.module._global_parameter_registration_hooks)
with graphsafe.watch(device="sim") as watch:
    model, x = nn.Linear(8, 8).cuda(), torch.zeros(4, 8, device="cuda")
    graph = serve(model, x)
    assert watch.ledger().processes[0].graphs[0].replays == 1
    model.weight = nn.Parameter(torch.ones(8, 8, device="cuda"))
    graph.replay()
    with graphsafe.watch() as inner:
        pass
    live = graphsafe.ledger()
    kept = torch.cuda.CUDAGraph.replay
assert torch.cuda.CUDAGraph.replay is replay and kept is not replay
assert nn.modules.module._global_parameter_registration_hooks == registering
ledger = watch.ledger()
assert [f.code for f in live.findings] == [f.code for f in ledger.findings] == ["GS711"]
assert ledger.findings[0].location.line == 19 and ledger.exit_code is None
assert [graph.replays for graph in ledger.processes[0].graphs] == [2]
assert str(ledger).startswith("Process 0: 1 graph, 2 replays") and "GS711 error" in str(ledger)
assert "Process 0" in ledger._repr_html_() and json.loads(ledger.json())["schema"] == ledger.schema
try:
    graphsafe.ledger()
except graphsafe.RequestError as error:
    print(error)
"""


def test_a_gpu_that_is_not_here_cannot_be_watched() -> None:
    with pytest.raises(graphsafe.RequestError, match="cuda:99: this machine has"):
        graphsafe.watch(device=["cuda:99"])


def test_a_block_is_watched_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(WATCHED), encoding="utf-8")
    ran = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("graphsafe.ledger: nothing is watched")


CONFIGURED = """
import graphsafe, torch

with graphsafe.watch(device="sim") as watch:
    x = torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
    graph.replay()
    unused = torch.cuda.CUDAGraph()
    with torch.cuda.graph(unused):
        x.mul_(2)
    print([[one.level for one in ledger.findings] for ledger in (graphsafe.ledger(), watch.ledger())])
"""


def test_a_watch_reads_the_levels_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CONFIGURED, encoding="utf-8")
    (tmp_path / "graphsafe.toml").write_text('levels = { GS618 = "note" }\n', encoding="utf-8")
    ran = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.stdout == "[['note'], ['note']]\n", ran.stderr


def test_a_wrong_configuration_is_told_before_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "graphsafe.toml").write_text('levels = { GS999 = "note" }\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(graphsafe.RequestError, match='levels: unknown rule "GS999"'):
        graphsafe.watch()


def test_a_watch_that_has_not_begun_says_how_to_use_it() -> None:
    with pytest.raises(graphsafe.RequestError, match="use it as `with"):
        graphsafe.watch().ledger()


@pytest.mark.skipif(torch.version.cuda is not None, reason="this PyTorch has CUDA")
def test_a_pytorch_without_cuda_has_no_graphs() -> None:
    with graphsafe.watch() as watch:
        torch.ones(2) + 1
    (process,) = watch.ledger().processes
    assert process.graphs == ()


def test_importing_the_names_imports_no_torch() -> None:
    script = "import sys, graphsafe; graphsafe.Ledger; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env={**os.environ}).returncode == 0


SLOW_WRITER = """
import sys, threading, time
from pathlib import Path
import torch
from graphsafe.run import part
from graphsafe.run.child.watch import Watch
from graphsafe.run.part import Options

write = part.write_part

def slowly(folder, token, facts):
    if threading.current_thread().name == "graphsafe":
        started.set()
        time.sleep(0.5)
    write(folder, token, facts)

started, part.write_part = threading.Event(), slowly
watch = Watch(Options(devices=("sim",)), Path(sys.argv[1]), "1-a")
watch.book._tell(False)
started.wait()
watch.end()
time.sleep(1)
"""


def test_a_thread_that_still_writes_does_not_undo_the_end(tmp_path: Path) -> None:
    note_start(tmp_path, "1-a", "")
    subprocess.run([sys.executable, "-c", SLOW_WRITER, str(tmp_path)], check=True, timeout=120)
    (part,) = read_parts(tmp_path)
    assert part.facts is not None
    assert part.facts.ended is True

"""Captures that fail: who swallowed the error, what broke them, and whether the process is corrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from graphsafe.report.model import CallSite
from graphsafe.run.child.failed_captures import _handler_around
from tests.conftest import ValidReport
from tests.run.test_run import expected, ledger_in, program, run

pytestmark = pytest.mark.child

SWALLOWED = """
import torch

x = torch.zeros(2, 4, device="cuda")
weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
optimizer = torch.optim.Adam([weight])
kept = []


def step():
    weight.grad = torch.ones_like(weight)
    optimizer.step()  # expect: GS802


def refuse():
    x + 1
    raise ValueError("no graph for this shape")


def with_graph(body):
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            body()
    except Exception:  # expect: GS605
        return None
    return graph


def begun_and_ended(body, keep):
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        try:
            graph.capture_begin()
            out = body()
            graph.capture_end()
        except Exception:  # expect: GS605
            kept.append(graph if keep else None)
            return None
    return graph, out


step()
with_graph(step)
with_graph(refuse)
graph, out = begun_and_ended(lambda: x + 1, False)
graph.replay()
begun_and_ended(lambda: x[x > 0], KEEP)  # expect: GS202
print("done")
"""


@pytest.mark.parametrize("keep", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_whoever_swallows_a_failed_capture_and_what_broke_it_is_told(
    tmp_path: Path, valid_report: ValidReport, keep: bool
) -> None:
    name = program(tmp_path, SWALLOWED.replace("KEEP", str(keep)))
    ran = run(tmp_path, "--", sys.executable, name)
    assert ran.stdout == "done\n" and ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    assert {(one["code"], one["location"]["line"]) for one in ledger["findings"]} == expected(tmp_path / name)
    swallowed = {(one["level"], one["message"]) for one in ledger["findings"] if one["code"] == "GS605"}
    assert swallowed == {
        (
            "warning",
            "an error in the captured code left a graph unfinished, and the surrounding except continues without it",
        ),
        (
            "error",
            "`graph.capture_begin()` began a capture that never ended; the program continued in a corrupted process",
        ),
    }
    (process,) = ledger["processes"]
    assert [one["error"].partition(" ")[0] for one in process["failed"]] == ["Attempting", "no", "capture_begin()"]
    assert all(one["swallowed_by"] is not None for one in process["failed"])


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("x @ torch.ones(3, 3, device='cuda')", ["GS607"]),
        pytest.param("torch.rand(4, device='cuda', generator=generator)", ["GS502"], marks=pytest.mark.slow),
        pytest.param("raise ValueError('not this one')", [], marks=pytest.mark.slow),
    ],
)
def test_an_error_that_ends_the_program_is_told_at_its_line(
    tmp_path: Path, valid_report: ValidReport, line: str, codes: list[str]
) -> None:
    text = "import torch\nx = torch.zeros(4, device='cuda')\ngenerator = torch.Generator(device='cuda')\n"
    text += "def step():\n    x.add_(1)\n    "
    begun = "graph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    step()\n"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, f"{text}{line}\n{begun}"))
    assert ran.returncode == 1 and len(ledger_in(tmp_path, valid_report)["processes"][0]["failed"]) == 1
    found = ledger_in(tmp_path, valid_report)["findings"]
    assert [(one["code"], one["location"]["line"]) for one in found] == [(code, 6) for code in codes]


@pytest.mark.slow
def test_a_capture_that_an_error_of_the_program_leaves_open_is_swallowed_by_nobody(
    tmp_path: Path, valid_report: ValidReport
) -> None:
    text = """
    import torch
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        try:
            graph.capture_begin()
            raise ValueError("no")
            graph.capture_end()
        except KeyError:
            pass
    """
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, text))
    ledger: Any = ledger_in(tmp_path, valid_report)
    assert ran.returncode == 1 and ledger["findings"] == [] and len(ledger["processes"][0]["failed"]) == 1


def test_the_handler_around_a_capture_goes_on_and_holds_more_than_its_begin(tmp_path: Path) -> None:
    path = tmp_path / "handlers.py"
    inner = "    try:\n        begin()\n    except OSError:\n        pass\n    try:\n        begin()\n        end()\n"
    inner += "    except KeyError:\n        pass\n"
    outer = "with suppress(RuntimeError):\n    try:\n        run()\n        end()\n    finally:\n        pass\n"
    path.write_text(f"def run():\n{inner}    except Exception:\n        raise\n{outer}")

    def handler(*lines: int) -> int | None:
        found = _handler_around([CallSite(str(path), line, None) for line in lines])
        return None if found is None else found.line

    assert handler(3) is None, "a handler of the begin alone swallows nothing of the captured code"
    assert handler(7) is None, "one handler catches no error of the device, and the other raises again"
    assert handler(15, 7) == 13

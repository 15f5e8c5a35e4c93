"""`graphsafe run` on the simulated device: faults are named with their line, sound programs are not accused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from graphsafe.errors import RequestError
from graphsafe.report.forms import render
from graphsafe.report.json_form import read_saved, render_json
from graphsafe.report.ledger.model import Ledger
from graphsafe.report.text import count
from graphsafe.run.parent.launch import check_present
from tests.conftest import ValidReport

pytestmark = pytest.mark.child
PROGRAMS = Path(__file__).parent / "programs"
STRAIGHT = """
import torch

weight = torch.ones(8, device="cuda")
x = torch.zeros(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = torch.relu(x).mul(weight)
for _ in range(5):
    graph.replay()
"""


def run(folder: Path, *words: str, device: str = "sim", **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphsafe", "run", "--device", device, *words]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def program(folder: Path, text: str, name: str = "program.py") -> str:
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return name


def ledger_in(folder: Path, valid_report: ValidReport, name: str = "graphsafe-ledger.json") -> Any:
    return valid_report((folder / name).read_text(encoding="utf-8"))


def expected(path: Path) -> set[tuple[str, int]]:
    found = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = re.search(r"# expect: (.*)", line)
        found |= {(code, number) for code in match[1].split(", ")} if match else set()
    return found


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Any:
    folder = tmp_path_factory.mktemp("faults")
    path = folder / "faults.py"
    path.write_text((PROGRAMS / "faults.py").read_text(encoding="utf-8"), encoding="utf-8")
    ran = run(folder, "--fail", "-o", "ledger.json", "-o", "ledger.html", "--", sys.executable, "faults.py")
    assert ran.stdout == "done\n" and ran.returncode == 1, ran.stderr
    return ledger_in(folder, valid_report, "ledger.json"), path, ran.stderr


def test_every_fault_is_named_with_its_line(faults: Any) -> None:
    ledger, path, _ = faults
    found = {(finding["code"], finding["location"]["line"]) for finding in ledger["findings"]}
    assert found == expected(path)
    assert {finding["location"]["path"] for finding in ledger["findings"]} == {"faults.py"}
    assert all(finding["data"]["process"] == "0" for finding in ledger["findings"])


def test_a_lost_weight_is_told_with_both_lines_and_the_replays_since(faults: Any) -> None:
    ledger, _, text = faults
    message = next(one["message"] for one in ledger["findings"] if "Rebound.reload" in one["message"])
    assert message == (
        "the old `step.weight`, which Rebound.reload (faults.py:25) rebound, is still used by graph 3 of faults.py:13, "
        "3 replays since"
    )
    uses = {use["what"]: use for use in ledger["processes"][0]["graphs"][2]["outside"]}
    lost, kept = uses["step.weight"], uses["step.bias"]
    assert (lost["status"], lost["access"], lost["bytes"], lost["replays_since"]) == ("rebound", "read", 256, 3)
    assert lost["where"]["line"] == 25 and lost["made"]["line"] == 20
    assert (kept["status"], kept["where"], kept["replays_since"]) == ("alive", None, 0)
    assert "`step.weight` was rebound at faults.py:25, 3 replays since" in " ".join(text.split())


def test_the_lengths_of_repeated_captures_are_told(faults: Any) -> None:
    ledger, _, _ = faults
    (message,) = (one["message"] for one in ledger["findings"] if one["code"] == "GS617")
    assert message.endswith("with x = float32[3, 8], float32[5, 8], float32[4, 8], float32[7, 8] and 1 more")


def test_sizes_that_ran_eagerly_stand_beside_those_captured(faults: Any) -> None:
    ledger, _, text = faults
    eager = ledger["processes"][0]["eager"]
    assert eager == {"steps": 4, "sizes": [3, 5, 6], "captured_sizes": [1, 2, 4]}  # 2 and 5: eager_function
    assert re.search(r"6 #+ +no graph, 2 steps", text) and re.search(r"4 #+ +captured, 1 replay\n", text)
    assert "With 6 captured too, graphs would cover them all; padding would be 6.2 %" in " ".join(text.split())


def test_a_failed_capture_names_who_swallowed_it(faults: Any) -> None:
    ledger, path, _ = faults
    (failed,) = ledger["processes"][0]["failed"]
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[failed["swallowed_by"]["line"] - 1].strip().startswith("except RuntimeError:")
    assert failed["error"] == "CUDA error: operation not permitted when stream is capturing"
    (swallowed,) = [one for one in ledger["findings"] if one["code"] == "GS605"]
    assert swallowed["message"].endswith(" failed; the program continued in a corrupted process")
    begun = failed["location"]["line"]
    assert swallowed["why"].endswith(f" This handler swallowed the error of the capture at faults.py:{begun}.")


def test_a_saved_ledger_is_read_and_turned_into_every_form(faults: Any) -> None:
    _, path, _ = faults
    saved = path.with_name("ledger.json")
    found = read_saved(saved)
    assert isinstance(found, Ledger) and render_json(found) == saved.read_text(encoding="utf-8")
    page = path.with_name("ledger.html").read_text(encoding="utf-8")
    assert "Process 0" in page and "step.weight: rebound, 3 replays since" in page
    assert "<td>no graph, 2 steps</td>" in page and "With 6 captured too, graphs would cover them all" in page
    for form in ("terminal", "concise", "sarif", "github", "gitlab", "junit"):
        command = [sys.executable, "-m", "graphsafe", "report", str(saved), "--format", form]
        shown = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
        assert shown.returncode == 0 and "GS711" in shown.stdout, shown.stderr


def test_a_sound_program_is_not_accused(tmp_path: Path, valid_report: ValidReport) -> None:
    ran = run(tmp_path, "--fail", "--", sys.executable, str(PROGRAMS / "sound.py"))
    ledger = ledger_in(tmp_path, valid_report)
    assert ledger["findings"] == [] and ledger["exit_code"] == ran.returncode == 0, ran.stderr
    assert sum(len(process["graphs"]) for process in ledger["processes"]) == 30


LOST = STRAIGHT.replace("    graph.replay()", "    weight = torch.ones(8, device='cuda')\n    graph.replay()")


@pytest.mark.slow
def test_an_error_without_a_line_fails_and_is_coloured_if_asked(tmp_path: Path, valid_report: ValidReport) -> None:
    """A program that no file holds has no lines."""
    ran = run(tmp_path, "--fail", "--", sys.executable, "-c", LOST, FORCE_COLOR="1", NO_COLOR="")
    limits = [limit["what"] for limit in ledger_in(tmp_path, valid_report)["limits"] if limit["kind"] == "no-line"]
    assert ran.returncode == 1 and set(limits) == {"GS711 outside-memory-lost"}, ran.stderr
    assert "\x1b[" in ran.stderr
    assert "\x1b[" not in run(tmp_path, "--", sys.executable, "-c", LOST, NO_COLOR="1").stderr
    found = read_saved(tmp_path / "graphsafe-ledger.json")
    shown = {form: render(found, form) for form in ("terminal", "concise", "github", "junit", "sarif", "html")}
    errors = shown["concise"].count("\n")
    text = f"{count(errors, 'error')} without a line"
    assert errors and shown["terminal"].splitlines()[-1] == text and f"<p>{text}</p>" in shown["html"]
    assert shown["github"].splitlines()[-1] == f"graphsafe run: {text}" and shown["github"].count("::error ") == errors
    assert f'failures="{errors}"' in shown["junit"] and "no findings" not in "".join(shown.values()).lower()
    (sarif,) = json.loads(shown["sarif"])["runs"]
    levels = [one["level"] for one in sarif["invocations"][0]["toolExecutionNotifications"]]
    assert sarif["results"] == [] and levels.count("error") == errors


REPEATED = """
import torch

x = torch.zeros(4, device="cuda")
graphs = []
for size in (4, 2, 1):
    graphs.append(torch.cuda.CUDAGraph())
    with torch.cuda.graph(graphs[-1]):
        pass
    graphs[-1].replay()
for size in (4, 2, 1):
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            y = x[:size] * x.max().item()
    except RuntimeError:
        pass
"""


@pytest.mark.slow
def test_what_a_loop_repeats_is_one_finding_in_every_form(tmp_path: Path, valid_report: ValidReport) -> None:
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, REPEATED))
    assert ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    told = {one["code"]: one for one in ledger["findings"]}
    assert {code: one["count"] for code, one in told.items()} == dict.fromkeys(("GS101", "GS501", "GS602", "GS605"), 3)
    assert len(told) == len(ledger["findings"]) and len(ledger["processes"][0]["failed"]) == 3
    assert told["GS602"]["data"]["graphs"] == ["1", "2", "3"]
    assert "failed 3 times: CUDA error" in ran.stderr and ran.stderr.count("3 times)") == len(told)
    found = read_saved(tmp_path / "graphsafe-ledger.json")
    shown = {
        form: render(found, form) for form in ("terminal", "concise", "sarif", "github", "gitlab", "junit", "html")
    }
    errors = sum(one["level"] == "error" for one in ledger["findings"])
    total = f"{errors} errors and {len(told) - errors} warning"
    assert shown["terminal"].splitlines()[-1].startswith(total) and f"graphsafe run: {total}" in shown["github"]
    (sarif,) = json.loads(shown["sarif"])["runs"]
    assert sorted(one["ruleId"] for one in sarif["results"]) == sorted(told)
    assert len(json.loads(shown["gitlab"])) == shown["concise"].count("\n") == len(told)
    assert f'tests="{len(told)}" failures="{errors}"' in shown["junit"] and shown["html"].count("<article") == len(told)


def test_a_captured_graph_is_told_whole(tmp_path: Path, valid_report: ValidReport) -> None:
    run(tmp_path, "--", sys.executable, program(tmp_path, STRAIGHT))
    ledger = ledger_in(tmp_path, valid_report)
    assert ledger["program"] == [sys.executable, "program.py"] and ledger["command"] == "run"
    (process,) = ledger["processes"]
    (graph,) = process["graphs"]
    assert (process["name"], process["rank"], process["started_by"]) == ("0", None, None)
    assert graph["captured"]["location"]["line"] == 7 and graph["captured"]["call_chain"] == []
    assert graph["captured"]["stream"] == "side stream 1" and graph["captured"]["thread"] == "MainThread"
    assert (graph["name"], graph["device"], graph["nodes"]) == ("1", "sim:0", {"kernel": 2})
    assert graph["replays"] == 5 and graph["first_replay"] <= graph["last_replay"]
    assert [(use["what"], use["access"], use["made"]["line"]) for use in graph["outside"]] == [
        ("x", "read", 5),
        ("weight", "read", 4),
    ]


USED = """
import threading

import torch

class Engine:
    def __init__(self):
        self.generator = torch.Generator(device="cuda")

    def capture(self, graph):
        with torch.cuda.graph(graph):
            out.normal_(generator=self.generator)

engine, out = Engine(), torch.zeros(4, device="cuda")
engine.generator.manual_seed(3)
engine.early, engine.late = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.CUDAGraph()
engine.early.register_generator_state(engine.generator)
engine.capture(engine.early)
engine.early.instantiate()
engine.early.replay()
engine.early.instantiate()
worker = threading.Thread(target=engine.early.replay, name="worker")
worker.start()
worker.join()
engine.late.register_generator_state(engine.generator)
with torch.cuda.stream(torch.cuda.Stream()):
    engine.capture(engine.late)
    engine.late.replay()
"""


def test_who_replays_a_graph_and_how_it_was_made_again(tmp_path: Path, valid_report: ValidReport) -> None:
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, USED))
    early, late = ledger_in(tmp_path, valid_report)["processes"][0]["graphs"]
    assert [(one["thread"], one["stream"]) for one in early["replayed_by"]] == [
        ("MainThread", "default stream"),
        ("worker", "default stream"),
    ]
    assert [one["thread"] for one in late["replayed_by"]] == ["MainThread"]
    assert late["replayed_by"][0]["stream"].startswith("side stream")
    assert early["generators"] == late["generators"] == ["engine.generator"]
    assert (early["instantiations"], late["instantiations"]) == (2, 1)
    assert early["captured"]["at"] < early["first_replay"] <= late["captured"]["at"]
    told = " ".join(ran.stderr.split())
    for text in ("1 of them captured after the first replay", "threads MainThread and worker", "instantiated again"):
        assert text in told


SUPPRESSED = """
import torch

class Engine:
    state = None

engine, x = Engine(), torch.ones(4, device="cuda")
engine.state, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x + engine.state
engine.state = None{comment}
graph.replay()
"""


@pytest.mark.parametrize(
    ("comment", "code"),
    [pytest.param("", 1, marks=pytest.mark.slow), ("  # graphsafe: ignore[GS711] a test", 0)],
)
def test_a_comment_suppresses_a_finding(tmp_path: Path, valid_report: ValidReport, comment: str, code: int) -> None:
    ran = run(tmp_path, "--fail", "--", sys.executable, program(tmp_path, SUPPRESSED.format(comment=comment)))
    (finding,) = ledger_in(tmp_path, valid_report)["findings"]
    assert finding["code"] == "GS711" and finding["suppressed"] == ({"reason": "a test"} if comment else None)
    assert ran.returncode == code and ("GS711" in ran.stderr) == bool(code), ran.stderr


STARTED = """
import os
import subprocess
import sys

import multiprocessing

def child():
    import torch
    x = torch.zeros(2, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    graph.replay()

if __name__ == "__main__":
    for how in sys.argv[1:]:
        if how == "fork":
            import torch
        process = multiprocessing.get_context(how).Process(target=child)
        process.start()
        process.join()
    print(subprocess.run([sys.executable, "straight.py"]).returncode)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [["fork"], ["spawn", "fork"]], ids=" ".join)
def test_processes_that_the_program_starts_are_watched(
    tmp_path: Path, valid_report: ValidReport, how: list[str]
) -> None:
    program(tmp_path, STRAIGHT, "straight.py")
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, STARTED), *how)
    assert ran.stdout == "0\n", ran.stderr
    processes = ledger_in(tmp_path, valid_report)["processes"]
    told = [(one["name"], one["started_by"], [graph["replays"] for graph in one["graphs"]]) for one in processes]
    started = [(f"0.{number}", "0", [2]) for number in range(1, len(how) + 1)]
    assert told == [("0", None, []), *started, (f"0.{len(how) + 1}", "0", [5])]


@pytest.mark.parametrize("imported", [pytest.param("with the main module", marks=pytest.mark.slow), "by the worker"])
def test_a_worker_of_a_fork_server_tells_all_it_did(tmp_path: Path, valid_report: ValidReport, imported: str) -> None:
    text = """
    import multiprocessing

    def child():
        import torch
        for number in range(3):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = torch.zeros(2, device="cuda") + number
            graph.replay()

    if __name__ == "__main__":
        process = multiprocessing.get_context("forkserver").Process(target=child)
        process.start()
        process.join()
    """
    if imported == "with the main module":
        text = f"    import torch\n{text}"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, text))
    assert ran.returncode == 0, ran.stderr
    ledger = ledger_in(tmp_path, valid_report)
    assert [graph["replays"] for graph in ledger["processes"][-1]["graphs"]] == [1, 1, 1]
    assert not [one for one in ledger["limits"] if one["kind"] == "cut-off"]


def test_a_program_that_is_killed_leaves_what_it_did(tmp_path: Path, valid_report: ValidReport) -> None:
    """Replays are counted to the last one; what was captured is written within a second."""
    text = STRAIGHT + "import os, signal, time; time.sleep(3); graph.replay(); os.kill(os.getpid(), signal.SIGKILL)\n"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, text))
    ledger = ledger_in(tmp_path, valid_report)
    assert ran.returncode == ledger["exit_code"] == 128 + signal.SIGKILL
    assert [graph["replays"] for graph in ledger["processes"][0]["graphs"]] == [6]


def test_a_program_that_crashes_at_once_leaves_its_graph_and_says_what_it_lost(
    tmp_path: Path, valid_report: ValidReport
) -> None:
    crashed = STRAIGHT + "import ctypes; ctypes.string_at(0)\n"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, crashed))
    ledger = ledger_in(tmp_path, valid_report)
    assert [graph["replays"] for graph in ledger["processes"][0]["graphs"]] == [5], ran.stderr
    assert [one["what"] for one in ledger["limits"] if one["kind"] == "cut-off"] == ["process 0"]
    assert "last second are missing" in " ".join(ran.stderr.split())


@pytest.mark.slow
def test_a_program_that_ends_before_its_first_graph_says_whether_the_watch_was_cut_off(tmp_path: Path) -> None:
    early = "import os, torch; os._exit(3)"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, early))
    assert ran.stderr.startswith("1 process reported no graph before the watch was cut off\n")
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, "import torch; raise ValueError"))
    assert "1 process captured no graph\n" in ran.stderr and "last second" not in ran.stderr


@pytest.mark.slow
def test_sigterm_is_passed_on_and_the_ledger_written(tmp_path: Path, valid_report: ValidReport) -> None:
    text = STRAIGHT + "import time; time.sleep(2); print('up', flush=True); time.sleep(60)\n"
    command = [sys.executable, "-m", "graphsafe", "run", "--device", "sim", "--", sys.executable]
    with subprocess.Popen([*command, program(tmp_path, text)], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert [one["replays"] for one in ledger_in(tmp_path, valid_report)["processes"][0]["graphs"]] == [5]


def test_the_program_keeps_its_output_exit_code_and_sitecustomize(tmp_path: Path, valid_report: ValidReport) -> None:
    (tmp_path / "site").mkdir()
    program(tmp_path / "site", "print('own site')", "sitecustomize.py")
    # Twice: graphsafe's own process has that path too.
    text = "import sys; print(sys.argv[1:], 'torch' in sys.modules, 'graphsafe' in sys.modules); sys.exit(7)"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, text), "-o", "x", PYTHONPATH=str(tmp_path / "site"))
    assert ran.stdout == "own site\n" * 2 + "['-o', 'x'] False False\n" and ran.returncode == 7
    ledger = ledger_in(tmp_path, valid_report)
    (unwatched,) = [limit["why"] for limit in ledger["limits"] if limit["kind"] == "not-watched"]
    assert ledger["exit_code"] == 7 and "`python -I`" in unwatched


@pytest.mark.slow
def test_stacks_change_nothing_on_the_simulated_device_and_the_ledger_says_so(
    tmp_path: Path, valid_report: ValidReport
) -> None:
    run(tmp_path, "--stacks", "--", sys.executable, program(tmp_path, STRAIGHT))
    ledger = ledger_in(tmp_path, valid_report)
    assert ledger["processes"][0]["memory"]["by_line"] is None
    assert "a pool's bytes by line" in [limit["what"] for limit in ledger["limits"]]


@pytest.mark.parametrize("from_file", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_warning_of_an_empty_graph_names_the_users_line(tmp_path: Path, from_file: bool) -> None:
    text = "import torch\ngraph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    torch.ones(8) + 1\n"
    ran = run(tmp_path, "--", sys.executable, *([program(tmp_path, text)] if from_file else ["-c", text]))
    place = f"{tmp_path / 'program.py'}:3" if from_file else "<string>:3"
    assert ran.stderr.startswith(f"{place}: UserWarning: The CUDA Graph is empty."), ran.stderr
    assert "graphs.py" not in ran.stderr and "hooks.py" not in ran.stderr


def test_a_program_without_python_has_a_ledger_without_empty_lines_before_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "--", "true")
    shown = ran.stdout + ran.stderr
    assert ran.returncode == 0 and shown.startswith("Not known:\n") and "no Python process" in shown


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "graphsafe: run: no program; write it after `--`: graphsafe run -- python serve.py\n"),
        (["--", "no-such-program"], "graphsafe: run: no such program: no-such-program\n"),
        (["--device", "cpu", "--", "true"], "--device cpu"),
        (["-o", "no/such/folder.json", "--", "true"], "graphsafe: -o"),
    ],
)
def test_a_wrong_request_is_one_line(tmp_path: Path, words: list[str], line: str) -> None:
    ran = run(tmp_path, *words)
    assert ran.returncode == 2 and ran.stdout == "" and line in ran.stderr and ran.stderr.count("\n") == 1


def test_a_form_that_is_asked_for_goes_to_stdout(tmp_path: Path) -> None:
    ran = run(tmp_path, "--format", "json", "--", sys.executable, "-c", "pass")
    assert json.loads(ran.stdout)["processes"] != [] and ran.stderr == ""


RANKS = """
import os, torch, torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
x = torch.ones(8, device="cuda")
dist.all_reduce(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
    y = x * 2
    dist.all_reduce(y)
for _ in range(3):
    graph.replay()
assert y.sum().item() == 64
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_under_torchrun_are_told_apart(tmp_path: Path, valid_report: ValidReport) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = run(tmp_path, "--", *torchrun, program(tmp_path, RANKS))
    assert ran.returncode == 0, ran.stderr
    processes = ledger_in(tmp_path, valid_report)["processes"]
    told = [(one["rank"], one["started_by"], [graph["replays"] for graph in one["graphs"]]) for one in processes]
    assert sorted(told, key=str) == [(0, "0", [3]), (1, "0", [3]), (None, None, [])]
    assert sorted(graph["device"] for one in processes for graph in one["graphs"]) == ["sim:0", "sim:1"]
    orders = {one["rank"]: one["order"] for one in processes}
    assert orders == {None: None, 0: [{"graph": "1", "replays": 3}], 1: [{"graph": "1", "replays": 3}]}


OUTLIVES = """
import subprocess
import sys

code = "import time, torch; graph = torch.cuda.CUDAGraph(); x = torch.ones(4, device='cuda')"
code += "\\nwith torch.cuda.graph(graph): y = x * 2"
code += "\\ngraph.replay(); print(flush=True); time.sleep(4)"
server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
server.stdout.readline()
"""


@pytest.mark.slow
def test_a_process_that_outlives_the_program_is_told(tmp_path: Path, valid_report: ValidReport) -> None:
    run(tmp_path, "--", sys.executable, program(tmp_path, OUTLIVES))
    limits = [one["what"] for one in ledger_in(tmp_path, valid_report)["limits"] if one["kind"] == "still-running"]
    assert len(limits) == 1 and limits[0].startswith("process 0")


WAITS = """
import torch

x = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
for _ in range(3):
    graph.replay()
    total = y.sum().item()
    torch.cuda.synchronize()
    x.copy_(torch.ones(8))
"""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory, valid_report: ValidReport) -> Any:
    folder = tmp_path_factory.mktemp("waits")
    run(folder, "--waits", "--", sys.executable, program(folder, WAITS))
    return ledger_in(folder, valid_report)


def test_lines_that_wait_are_told_where_asked_for(waiting: Any) -> None:
    ledger = waiting
    found = [(one["code"], one["level"], one["region"], one["location"]["line"]) for one in ledger["findings"]]
    places = [("GS101", "warning", "step", 10), ("GS610", "warning", "step", 11), ("GS304", "warning", "step", 12)]
    assert found == places
    waits = [(wait["location"]["line"], wait["count"]) for wait in ledger["processes"][0]["waits"]]
    assert waits == [(10, 3), (11, 3), (12, 3)]


def test_a_wait_is_told_by_its_expression_and_by_what_it_costs_there(waiting: Any) -> None:
    ledger = waiting
    read, _, copy = ledger["findings"]
    assert copy["message"] == "`x.copy_(torch.ones(8))` makes a blocking host-to-device copy of a host tensor"
    if sys.version_info >= (3, 11):
        assert read["message"] == "`y.sum().item()` makes the host read a device value"
        assert (read["location"]["column"], read["location"]["end_column"]) == (13, 27)
    assert ledger["processes"][0]["waits"][0]["location"] == read["location"]
    assert read["why"].startswith("The host waits here until the GPU has finished all queued work")
    assert not [limit for limit in ledger["limits"] if "thread" in limit["what"]]


ONCE = """
import torch

x = torch.zeros(4, device="cuda")
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x.add_(1)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
print(x.sum().item())
"""


def test_waits_before_and_after_all_replays_are_no_findings(tmp_path: Path, valid_report: ValidReport) -> None:
    run(tmp_path, "--waits", "--", sys.executable, program(tmp_path, ONCE))
    ledger = ledger_in(tmp_path, valid_report)
    assert ledger["processes"][0]["waits"] and ledger["findings"] == []


@pytest.mark.slow
def test_a_fault_of_the_watch_does_not_reach_the_program(tmp_path: Path, valid_report: ValidReport) -> None:
    broken = "import graphsafe.run.child.sim.sight as sim\nsim.SimSight.contents = lambda *_: 1 / 0\n"
    ran = run(tmp_path, "--", sys.executable, program(tmp_path, STRAIGHT.replace("\n\n", f"\n{broken}\n", 1)))
    ledger = ledger_in(tmp_path, valid_report)
    assert ran.returncode == 0, ran.stderr
    assert [limit["kind"] for limit in ledger["limits"]].count("internal") == 1
    assert [graph["replays"] for graph in ledger["processes"][0]["graphs"]] == [5]


LOST = """
import torch

model = torch.nn.Linear(4, 1, device="cuda")
static = torch.zeros(8, device="cuda")
model(torch.ones(8, 4, device="cuda")).sum().backward()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model.weight.grad.mul_(0.5)
    y = static * 2
graph.replay()
model.weight.grad = None
static.resize_(100_000)
graph.replay()
"""


@pytest.mark.slow
def test_gradients_set_to_none_and_resized_tensors_are_lost(tmp_path: Path, valid_report: ValidReport) -> None:
    run(tmp_path, "--", sys.executable, program(tmp_path, LOST))
    ledger = ledger_in(tmp_path, valid_report)
    found = [(one["code"], one["data"]["what"], one["location"]["line"]) for one in ledger["findings"]]
    assert found == [("GS711", ["model.weight.grad"], 12), ("GS711", ["static"], 13)]


TWO_DEVICES = """
import torch

for index in (0, 1):
    with torch.cuda.device(index):
        x = torch.zeros(8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream(index)):
            x.add_(1)
        graph.replay()
    x.sum().item()
    torch.cuda.synchronize(index)
"""


@pytest.mark.slow
def test_graphs_on_the_devices_that_are_named_are_recorded(tmp_path: Path, valid_report: ValidReport) -> None:
    name = program(tmp_path, TWO_DEVICES)

    def recorded(*devices: str) -> tuple[list[str], list[str]]:
        """Return the devices of the graphs, and the devices that were left out."""
        words = [word for device in devices[1:] for word in ("--device", device)]
        ran = run(tmp_path, *words, "--", sys.executable, name, device=devices[0])
        assert ran.returncode == 0, ran.stderr
        ledger = ledger_in(tmp_path, valid_report)
        graphs = [graph["device"] for process in ledger["processes"] for graph in process["graphs"]]
        assert set(ledger["environment"]["devices"]) == set(graphs)
        return graphs, [limit["what"] for limit in ledger["limits"] if limit["kind"] == "left-out"]

    assert recorded("sim:0", "sim:1") == (["sim:0", "sim:1"], [])
    assert recorded("sim", "sim:1") == (["sim:0", "sim:1"], [])
    assert recorded("sim:1") == (["sim:1"], ["graphs on sim:0"])


@pytest.mark.slow
def test_waits_for_the_devices_that_are_named_are_recorded(tmp_path: Path, valid_report: ValidReport) -> None:
    name = program(tmp_path, TWO_DEVICES)

    def counted(*devices: str) -> tuple[list[int], list[str]]:
        words = [word for device in devices[1:] for word in ("--device", device)]
        run(tmp_path, "--waits", *words, "--", sys.executable, name, device=devices[0])
        ledger = ledger_in(tmp_path, valid_report)
        waits = [wait["count"] for process in ledger["processes"] for wait in process["waits"]]
        return waits, [limit["what"] for limit in ledger["limits"] if limit["kind"] == "left-out"]

    assert counted("sim:0", "sim:1") == ([2, 2], [])
    assert counted("sim:1") == ([1, 1], ["graphs on sim:0", "waits on sim:0"])


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        (("cuda", "sim"), "--device cuda --device sim: a program runs on GPUs or on simulated devices"),
        (("gpu",), "--device gpu: expected cuda, cuda:N, all, sim or sim:N"),
        pytest.param(("all", "cuda:99"), "--device cuda:99: this machine has ", marks=pytest.mark.slow),
    ],
)
def test_devices_that_cannot_be_watched_are_one_line(tmp_path: Path, devices: tuple[str, ...], problem: str) -> None:
    words = [word for device in devices[1:] for word in ("--device", device)]
    ran = run(tmp_path, *words, "--", sys.executable, "-c", "print('ran')", device=devices[0])
    assert (ran.returncode, ran.stdout) == (2, "")
    assert problem in ran.stderr and ran.stderr.count("\n") == 1


def test_a_named_gpu_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cuda` means any GPU; a program that asks for one and finds none would fail far from the cause."""
    monkeypatch.setattr("graphsafe.capture.api.present_gpus", lambda: ["cuda:0"])
    check_present(["all", "cuda", "cuda:0"])
    monkeypatch.setattr("graphsafe.capture.api.present_gpus", lambda: [])
    for devices in (["cuda"], ["all"]):
        with pytest.raises(RequestError, match=f"--device {devices[0]}: this machine has no CUDA device"):
            check_present(devices)
    check_present(["sim", "sim:1"])
    check_present([])


def test_a_graphsafe_that_cannot_be_imported_says_so(tmp_path: Path, valid_report: ValidReport) -> None:
    other = tmp_path / "site" / "graphsafe"
    (other / "run").mkdir(parents=True)
    for folder in (other, other / "run"):
        (folder / "__init__.py").write_text("")
    program = "import sys; sys.path.insert(0, sys.argv[1]); import torch; print('done')"
    ran = run(tmp_path, "--", sys.executable, "-c", program, str(tmp_path / "site"))
    assert ran.stdout == "done\n" and ran.returncode == 0
    assert "graphsafe: this process is not watched: No module named 'graphsafe.run.child'" in ran.stderr


@pytest.mark.slow
def test_waits_that_were_not_watched_are_unknown(tmp_path: Path, valid_report: ValidReport) -> None:
    name = program(tmp_path, STRAIGHT)
    run(tmp_path, "--", sys.executable, name)
    assert [process["waits"] for process in ledger_in(tmp_path, valid_report)["processes"]] == [None]
    run(tmp_path, "--waits", "--", sys.executable, name)
    assert [process["waits"] for process in ledger_in(tmp_path, valid_report)["processes"]] == [[]]


@pytest.mark.slow
def test_eager_steps_that_are_not_seen_are_unknown(tmp_path: Path, valid_report: ValidReport) -> None:
    """Code of `-c` has no lines by which a step can be told from another."""

    def eager(*words: str) -> tuple[Any, list[str]]:
        run(tmp_path, "--", sys.executable, *words)
        ledger = ledger_in(tmp_path, valid_report)
        unseen = [one["why"] for one in ledger["limits"] if one["what"] == "steps that run without a graph"]
        return [process["eager"] for process in ledger["processes"]], unseen

    assert eager(program(tmp_path, STRAIGHT)) == ([{"steps": 0, "sizes": [], "captured_sizes": [8]}], [])
    values, (why,) = eager("-c", STRAIGHT)
    assert values == [None] and why.startswith("captured steps look like other work")
    assert eager("-c", "import torch") == ([{"steps": 0, "sizes": [], "captured_sizes": []}], [])


def test_a_wrong_configuration_is_told_before_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "graphsafe.toml").write_text('levels = { GS999 = "error" }\n')
    ran = run(tmp_path, "--", sys.executable, "-c", "print('ran')")
    assert (ran.returncode, ran.stdout) == (2, "") and 'levels: unknown rule "GS999"' in ran.stderr

"""`graphsafe run` on a real GPU: faults and sound twins, and libraries that capture by themselves.

Run it with `pytest tests/gpu/test_run.py -m gpu`. The programs' own outputs are those of a run that nobody watches.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ValidReport

pytestmark = pytest.mark.gpu

PROGRAMS = Path(__file__).parents[1] / "run" / "programs"
_MONITORED = sys.version_info >= (3, 12)
"Whether Python tells of calls and lines: without that, some things are not seen on a GPU."
_ON_SIMULATED_ONLY = {"GS501", "GS714", *(() if _MONITORED else ("GS616",))}
"""The order of streams is followed on a GPU with `--waits` only. Generators are left capturing up to torch 2.11."""
monitored = pytest.mark.skipif(not _MONITORED, reason="from Python 3.12 on")


def watched(folder: Path, valid_report: ValidReport, text: str, *words: str) -> tuple[Any, str]:
    """The ledger of a program, and what the program printed. It prints the same unwatched."""
    (folder / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")
    plain = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True)
    assert plain.returncode == 0, plain.stderr
    command = [sys.executable, "-m", "graphsafe", "run", *words, "--", sys.executable, "program.py"]
    ran = subprocess.run(command, cwd=folder, env=dict(os.environ), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == plain.stdout
    return valid_report((folder / "graphsafe-ledger.json").read_text(encoding="utf-8")), ran.stdout


def graphs_of(ledger: Any) -> list[Any]:
    return [graph for process in ledger["processes"] for graph in process["graphs"]]


def expected(text: str) -> set[tuple[str, int]]:
    found = set()
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"# expect: (.*)", line)
        found |= {(code, number) for code in match[1].split(", ")} if match else set()
    return {(code, line) for code, line in found if code not in _ON_SIMULATED_ONLY}


def test_faults_are_named_with_their_lines(tmp_path: Path, valid_report: ValidReport) -> None:
    text = (PROGRAMS / "faults.py").read_text(encoding="utf-8")
    ledger, _ = watched(tmp_path, valid_report, text)
    found = {(one["code"], one["location"]["line"]) for one in ledger["findings"]}
    assert {one for one in found if one[0] not in _ON_SIMULATED_ONLY} == expected(text)


def places(ledger: Any, code: str) -> list[int]:
    """The lines of the findings with a code."""
    return [one["location"]["line"] for one in ledger["findings"] if one["code"] == code]


def internal(ledger: Any) -> list[str]:
    """What graphsafe says of its own faults."""
    return [one["why"] for one in ledger["limits"] if one["kind"] == "internal" or "graphsafe failed" in one["why"]]


def test_refills_without_an_order_are_named_with_their_lines(tmp_path: Path, valid_report: ValidReport) -> None:
    text = (PROGRAMS / "faults.py").read_text(encoding="utf-8")
    ledger, _ = watched(tmp_path, valid_report, text, "--waits")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "# expect: GS714" in line]
    assert sorted(places(ledger, "GS714")) == lines and len(lines) == 2
    assert internal(ledger) == []


def test_refills_with_an_order_are_not_accused(tmp_path: Path, valid_report: ValidReport) -> None:
    text = (PROGRAMS / "sound.py").read_text(encoding="utf-8")
    ledger, _ = watched(tmp_path, valid_report, text, "--waits")
    assert [one for one in ledger["findings"] if not one["code"].startswith("GS1")] == []
    assert internal(ledger) == []


def test_a_sound_program_is_not_accused(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, (PROGRAMS / "sound.py").read_text(encoding="utf-8"))
    assert ledger["findings"] == []
    assert len(graphs_of(ledger)) == 30


OUTSIDE = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64)).cuda()
x, out = torch.zeros(4, 64, device="cuda"), torch.zeros(4, 64, device="cuda")
with torch.no_grad():
    model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.copy_(model(x))
for step in range(7):
    x.fill_(step)
    graph.replay()
print(out.sum().item())
"""


HANDED_ON = """
import torch

state = torch.ones(1 << 20, device="cuda")
out = torch.zeros(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out.copy_(state)
graph.replay()
torch.cuda.synchronize()
del state
other = torch.zeros(1024, 1024, device="cuda")
for _ in range(6):
    graph.replay()
torch.cuda.synchronize()
print(float(out.sum()))
"""


def test_lost_memory_is_told_with_the_tensor_that_got_it(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, HANDED_ON)
    (finding,) = [one for one in ledger["findings"] if one["code"] == "GS711"]
    assert finding["location"]["line"] == 11
    assert finding["why"].endswith("The memory now belongs to float32[1024, 1024].")


def test_what_a_capture_decides_once_is_named_with_its_line(tmp_path: Path, valid_report: ValidReport) -> None:
    text = (PROGRAMS / "decided.py").read_text(encoding="utf-8")
    ledger, _ = watched(tmp_path, valid_report, text)
    assert {(one["code"], one["location"]["line"]) for one in ledger["findings"]} == expected(text)


WHOLE_STEPS = """
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(12, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.01, device="cuda"), capturable=True)
x, y = torch.randn(64, 12, device="cuda"), torch.randn(64, 1, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.smooth_l1_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


for _ in range(3):
    step()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(20):
    graph.replay()
print(f"{loss.item():.4f}")
"""


def test_addresses_in_unfilled_places_of_arguments_accuse_nobody(tmp_path: Path, valid_report: ValidReport) -> None:
    """The capture lets go of the gradients of the warm-up, whose addresses are still on the host's stack."""
    ledger, _ = watched(tmp_path, valid_report, WHOLE_STEPS)
    assert ledger["findings"] == []
    assert not any("grad" in use["what"] for use in graphs_of(ledger)[0]["outside"])


def test_a_graphs_memory_is_known_by_name(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, OUTSIDE)
    (graph,) = graphs_of(ledger)
    uses = {use["what"]: use["access"] for use in graph["outside"]}
    parameters = {f"model.{name}" for name in ("0.weight", "0.bias", "2.weight", "2.bias")}
    assert {*parameters, "x", "out"} <= set(uses)
    assert all(use["status"] == "alive" for use in graph["outside"])
    assert graph["replays"] == 7 and graph["nodes"]["kernel"] >= 3 and graph["pool_bytes"] > 0
    assert graph["device"] == "cuda:0" and graph["captured"]["stream"] == "side stream 1"


def test_the_lines_that_made_memory_are_known_where_asked_for(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, OUTSIDE, "--stacks")
    (graph,) = graphs_of(ledger)
    made = {use["what"]: use["made"]["line"] for use in graph["outside"] if use["made"] is not None}
    assert (made["model.0.weight"], made["x"], made["out"]) == (6, 7, 7)
    assert [one["location"]["line"] for one in ledger["processes"][0]["memory"]["by_line"]] == [12]


MADE = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
graphed = torch.cuda.make_graphed_callables(model, (torch.randn(8, 32, device="cuda"),))
for step in range(5):
    x = torch.full((8, 32), float(step), device="cuda")
    loss = graphed(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
"""


def test_graphed_callables_forward_and_backward(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, MADE)
    assert [graph["replays"] for graph in graphs_of(ledger)] == [5, 5]
    assert ledger["findings"] == []


TREES = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32)).cuda()
step = torch.compile(model, mode="reduce-overhead", fullgraph=True)
total = 0.0
with torch.no_grad():
    for size in (4, 8, 4, 8, 4, 8, 4, 8):
        torch.compiler.cudagraph_mark_step_begin()
        total += step(torch.ones(size, 32, device="cuda")).sum().item()
print(round(total, 3))
"""


def test_inductors_trees_are_counted_and_not_accused(tmp_path: Path, valid_report: ValidReport) -> None:
    """Also: the wrappers break no full graph."""
    ledger, _ = watched(tmp_path, valid_report, TREES)
    captured = [graph for graph in graphs_of(ledger) if graph["nodes"]]
    assert captured and sum(graph["replays"] for graph in captured) >= 2
    assert ledger["findings"] == []


GENERATE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=128)
model = LlamaForCausalLM(config).cuda().eval()
model.generation_config.cache_implementation = "static"
model.forward = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
ids = torch.arange(8, device="cuda")[None]
for _ in range(2):
    out = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)
print(out.tolist())
"""


def test_generate_with_a_static_cache(tmp_path: Path, valid_report: ValidReport) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "plain.py").write_text(GENERATE, encoding="utf-8")
    plain = subprocess.run([sys.executable, "plain.py"], cwd=tmp_path, capture_output=True, text=True)
    if plain.returncode:
        pytest.skip(f"the program fails unwatched: {plain.stderr.splitlines()[-1]}")
    ledger, _ = watched(tmp_path, valid_report, GENERATE)
    captured = [graph for graph in graphs_of(ledger) if graph["nodes"]]
    assert captured and sum(graph["replays"] for graph in captured) >= 8
    assert [one for one in ledger["findings"] if one["level"] == "error"] == []


WAITS = """
import torch

x = torch.ones(2048, 2048, device="cuda")
y = torch.empty_like(x)
torch.mm(x, x, out=y)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(16):
        torch.mm(x, x, out=y)
for _ in range(4):
    graph.replay()
    y[0, 0].item()
torch.cuda.synchronize()
print("done")
"""


def test_waits_are_told_with_what_they_cost(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, WAITS, "--waits")
    waits = {wait["location"]["line"]: wait for wait in ledger["processes"][0]["waits"]}
    assert waits[13]["count"] == 4
    assert waits[13]["ms"] > 1  # for 64 products of 17 billion operations each
    assert {one["location"]["line"] for one in ledger["findings"]} >= {13}


WAITING = """
import torch

x = torch.ones(64, device="cuda")
index = torch.tensor([1, 2])
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
for _ in range(4):
    graph.replay()
    LINE
print("done")
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="expressions have columns from Python 3.11 on")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("y.sum().item()", "GS101"),
        ("while not (y > 0).all(): pass", "GS102"),
        ("y.cpu()", "GS103"),
        ("print(y)", "GS104"),
        ("y.nonzero()", "GS201"),
        ("y[y > 1]", "GS202"),
        ("y[index]", "GS302"),
        ("torch.cuda.current_stream().synchronize()", "GS105"),
    ],
)
def test_a_wait_is_named_by_its_expression(tmp_path: Path, valid_report: ValidReport, line: str, code: str) -> None:
    ledger, _ = watched(tmp_path, valid_report, WAITING.replace("LINE", line), "--waits")
    at = WAITING.splitlines().index("    LINE") + 1
    assert {(one["code"], one["location"]["line"]) for one in ledger["findings"]} == {(code, at)}
    assert internal(ledger) == []


IDLE = """
import sys, time, torch

x = torch.randn(4096, 4096, device="cuda")
y = x @ x  # Before the capture: the first product makes a handle of cuBLAS, which no capture allows.
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
    for _ in range(10):
        y = x @ x
begun = time.monotonic()
while time.monotonic() < begun + 8:
    graph.replay()
    torch.cuda.synchronize()
    time.sleep({pause})
"""


def test_the_share_of_idle_time_is_read(tmp_path: Path, valid_report: ValidReport) -> None:
    """Of a GPU that nothing else uses. Where it is not told, a limit says why."""
    told = []
    for pause in (0, 2):
        ledger, _ = watched(tmp_path, valid_report, IDLE.format(pause=pause))
        (process,) = ledger["processes"]
        assert process["idle"] is not None, ledger["limits"]
        assert process["idle"]["seconds"] > 6
        told.append(process["idle"]["share"])
    print(f"idle: {told[0]:.0%} of a busy loop, {told[1]:.0%} of a sleeping one")
    assert told[0] < 0.3 and told[1] > 0.7


SILENT = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
other = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
inputs, graphs = {}, {}
with torch.no_grad():
    for size in (1, 2, 4, 8):
        inputs[size] = torch.zeros(size, 64, device="cuda")
        model(inputs[size])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(inputs[size])
        graphs[size] = graph, out

def step(x):
    if len(x) not in graphs:
        return model(x)
    graph, out = graphs[len(x)]
    inputs[len(x)].copy_(x)
    graph.replay()
    return out.clone()

total = 0.0
with torch.no_grad():
    for size in (1, 2, 4, 8, 12, 12, 12, 9, 8, 12):
        total += step(torch.ones(size, 64, device="cuda")).sum().item()
        other(torch.ones(size + 1, 64, device="cuda"))
print(round(total, 2))
"""


@monitored
def test_steps_without_a_graph_are_counted_by_size(tmp_path: Path, valid_report: ValidReport) -> None:
    ledger, _ = watched(tmp_path, valid_report, SILENT)
    assert internal(ledger) == []
    (finding,) = ledger["findings"]
    line = SILENT.splitlines().index("        return model(x)") + 1
    assert (finding["code"], finding["location"]["line"]) == ("GS616", line)
    data = finding["data"]
    assert data["sizes"] == {"9": 1, "12": 4} and data["captured_sizes"] == [1, 2, 4, 8]
    assert data["replays"] == {"1": 1, "2": 1, "4": 1, "8": 2} and data["cover"] == [12]
    assert ledger["processes"][0]["eager"] == {"steps": 5, "sizes": [9, 12], "captured_sizes": [1, 2, 4, 8]}


TRAINED = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(8, 32, device="cuda"), torch.randn(8, 1, device="cuda")

def train(x, y):
    optimizer.zero_grad(set_to_none=False)
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    return loss

stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):
        train(x, y)
torch.cuda.current_stream().wait_stream(stream)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = train(x, y)
for step in range(6):
    graph.replay()
    if step % 2:
        with torch.no_grad():
            model(torch.ones(5, 32, device="cuda"))
print(round(loss.item(), 4))
"""


def test_an_evaluation_beside_a_captured_training_step_is_not_accused(
    tmp_path: Path, valid_report: ValidReport
) -> None:
    ledger, _ = watched(tmp_path, valid_report, TRAINED)
    assert internal(ledger) == [] and places(ledger, "GS616") == []


BROKEN = """
import torch

x = torch.zeros(8, 8, device="cuda")
index = torch.tensor([1, 2])
mask = x > 0

def step():
    return LINE

step()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        step()
except RuntimeError:
    graph = None
print("done")
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="expressions have columns from Python 3.11 on")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("x.sum().item()", "GS101"),
        ("1 if x.sum() > 0 else 2", "GS102"),
        ("x.cpu()", "GS103"),
        ("torch.nonzero(x)", "GS201"),
        ("x[mask]", "GS202"),
        ("torch.tensor([1.0, 2.0], device='cuda')", "GS301"),
        ("x[index]", "GS302"),
        ("torch.cuda.synchronize()", "GS105"),
    ],
)
def test_the_expression_that_broke_a_capture_is_named(
    tmp_path: Path, valid_report: ValidReport, line: str, code: str
) -> None:
    ledger, _ = watched(tmp_path, valid_report, BROKEN.replace("LINE", line))
    at = BROKEN.splitlines().index("    return LINE") + 1
    found = [(one["code"], one["location"]["line"]) for one in ledger["findings"] if one["code"] != "GS501"]
    assert sorted(found) == sorted([(code, at), ("GS605", at + 7)])
    assert internal(ledger) == []


PINNED = """
import torch

host = torch.zeros(1 << 22).pin_memory()
static = torch.zeros(1 << 22, device="cuda")
static.copy_(host, non_blocking=True)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static.copy_(host, non_blocking=True)
    out = static * 2
for step in range(4):
    host.fill_(step)
    graph.replay()
    WAIT
torch.cuda.synchronize()
print("done")
"""


@pytest.mark.parametrize(("wait", "found"), [("pass", 1), ("torch.cuda.synchronize()", 0)])
def test_pinned_memory_is_written_again_after_a_wait(
    tmp_path: Path, valid_report: ValidReport, wait: str, found: int
) -> None:
    ledger, _ = watched(tmp_path, valid_report, PINNED.replace("WAIT", wait), "--waits")
    line = PINNED.splitlines().index("    host.fill_(step)") + 1
    assert places(ledger, "GS714") == [line] * found and internal(ledger) == []


POOLED = """
import torch

x = torch.ones(1 << 20, device="cuda")
pool = torch.cuda.graph_pool_handle()

def capture(step):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        out = step(x)
    return graph, out

def play(graph, out):
    graph.replay()
    return out.sum().item()

first, one = capture(lambda x: (x * 2) + 1)
second, two = capture(lambda x: x - 3)

def used_up():
    total = 0.0
    a, b = one, two
    for _ in range(3):
        second.replay()
        total += b.sum().item()
        first.replay()
        total += a.sum().item()
        total += play(second, b)
        total += play(first, a)
    return total

def kept():
    b = two
    second.replay()
    first.replay()
    return b.sum().item()

print(used_up() if HOW == "sound" else kept())
"""


@monitored
@pytest.mark.parametrize("how", ["sound", "fault"])
def test_a_result_that_another_graph_of_the_pool_has_overwritten(
    tmp_path: Path, valid_report: ValidReport, how: str
) -> None:
    """The second graph's output lies where the first one has `x * 2`, so that replays of the first write 2 there."""
    ledger, printed = watched(tmp_path, valid_report, POOLED.replace("HOW", repr(how)))
    line = POOLED.splitlines().index("    return b.sum().item()") + 1
    assert internal(ledger) == []
    if how == "fault":
        assert float(printed) == 2 * (1 << 20), "the allocator gave the output memory of its own"
    assert [(one["code"], one["location"]["line"]) for one in ledger["findings"]] == [("GS706", line)] * (
        how == "fault"
    )


@monitored
@pytest.mark.parametrize("words", [(), ("--waits",)])
def test_exceptions_reach_the_program_as_they_are(tmp_path: Path, valid_report: ValidReport, words: tuple[str]) -> None:
    """The failing expressions hold new tensors, whose memory is freed while the exception is on its way."""
    watched(
        tmp_path,
        valid_report,
        """
        import torch

        x, stream = torch.arange(4.0, device="cuda"), torch.cuda.Stream()

        def captured(step):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                step()

        class Old:
            def __getattr__(self, name):
                raise AttributeError(name)

        def reraised():
            try:
                return [x * 2, {}["key"]]
            finally:
                x.add_(1)

        steps = (
            lambda: [x.max(), 1 / 0],
            lambda: torch.add(x * 2, torch.ones(3, device="cuda")),
            lambda: torch.nn.functional.linear(x * 2, torch.ones(3, 3, device="cuda")),
            lambda: torch.nn.Linear(3, 3).cuda()(x * 2),
            lambda: (x * 2).view(3),
            lambda: [x * 2, int("one")],
            reraised,
            lambda: captured(lambda: x.max().item()),
        )
        for step in steps:
            try:
                step()
            except Exception as error:
                print(type(error).__name__, hasattr(Old(), "name"))
        total = 0.0
        for _ in range(3):
            try:
                total += [x.sum().item(), {}["key"]][0]
            except KeyError:
                total += x.max().item()
        print(total)
        """,
        *words,
    )


def test_a_generator_registered_on_another_device_is_named(tmp_path: Path, valid_report: ValidReport) -> None:
    """The replay ends with an illegal memory access; the ledger names the line all the same."""
    if pytest.importorskip("torch").cuda.device_count() < 2:
        pytest.skip("two GPUs")
    text = """
        import torch

        generator = torch.Generator(device="cuda:1")
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.device(1):
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                torch.rand(4, device="cuda:1", generator=generator)
            graph.replay()
        """
    (tmp_path / "program.py").write_text(textwrap.dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "graphsafe", "run", "--", sys.executable, "program.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True)
    ledger = valid_report((tmp_path / "graphsafe-ledger.json").read_text(encoding="utf-8"))
    assert places(ledger, "GS502") == [6]

"""Which findings are about code that a graph will hold, and which about the host code around it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config, load_config
from graphsafe.report.model import Report
from graphsafe.scan.api import scan_paths

SERVING = """\
    import torch
    from torch import nn

    def clipped(x: torch.Tensor):
        return x / x.max().item()  # both

    class Model(nn.Module):
        def forward(self, x):
            return clipped(x) + x.min().item()  # model

    class Runner:
        def __init__(self, model: Model, device):
            self.model, self.device = model, device
            self.x = torch.zeros(4, device=device)
            self.graph = torch.cuda.CUDAGraph()

        def capture(self, stream):
            with torch.cuda.graph(self.graph, stream=stream):
                self.out = scaled(self.model(self.x))

        def execute_model(self, x: torch.Tensor):
            if x.isnan().any():  # nan
                raise ValueError
            self.x.copy_(clipped(x))
            self.lengths = torch.tensor([1, 2], device=x.device)  # lengths
            self.graph.replay()
            torch.cuda.synchronize()  # wait
            return self.read(self.out)

        def read(self, out: torch.Tensor):
            return out.tolist()  # read

    def scaled(x: torch.Tensor):
        return x * x.sum().item()  # scaled
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(folder: Path, source: str) -> Report:
    (folder / "serving.py").write_text(textwrap.dedent(source))
    return scan_paths([folder], load_config(folder))


def by_mark(report: Report, source: str = SERVING) -> dict[str, tuple[str, str, str | None]]:
    lines = source.splitlines()
    return {
        lines[f.location.line - 1].rpartition("# ")[2]: (f.code, f.level, f.region)
        for f in report.findings
        if f.level != "note"
    }


def test_what_a_graph_holds_is_an_error_and_what_stands_around_it_a_warning(folder: Path) -> None:
    assert by_mark(scan(folder, SERVING)) == {
        "both": ("GS101", "error", "captured"),
        "model": ("GS101", "error", "captured"),
        "scaled": ("GS101", "error", "captured"),
        "nan": ("GS102", "warning", "step"),
        "lengths": ("GS301", "warning", "step"),
        "wait": ("GS105", "warning", "step"),
        "read": ("GS101", "warning", "step"),
    }


def test_advice_around_graphs_fits_there(folder: Path) -> None:
    found = {f.code: f for f in scan(folder, SERVING).findings if f.region == "step"}
    assert "after the replay" not in found["GS105"].fix and "capture" not in found["GS101"].why
    assert "pinned" in found["GS301"].fix


def test_a_function_that_captures_and_replays_is_captured_in_its_block_alone(folder: Path) -> None:
    source = """\
        import torch

        class Graphed(torch.nn.Module):
            def forward(self, x):
                if self.graph is None:
                    self.graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(self.graph, stream=self.stream):
                        self.out = x * x.sum().item()  # block
                self.x.copy_(x)
                self.graph.replay()
                return self.out * x.max().item()  # after
    """
    found = by_mark(scan(folder, source), source)
    assert found["block"] == ("GS101", "error", "captured") and found["after"] == ("GS101", "warning", "step")


@pytest.mark.parametrize(
    "graph, block",
    [
        ("torch.cuda.CUDAGraph()", "torch.cuda.graph(graph, stream=self.stream)"),
        ("torch.xpu.XPUGraph()", "torch.xpu.graph(graph, stream=self.stream)"),
        ("torch.npu.NPUGraph()", "torch.npu.graph(graph, stream=self.stream)"),
        ("torch.accelerator.Graph()", "self.stream, graph"),
    ],
)
def test_captures_of_other_devices_are_captures(folder: Path, graph: str, block: str) -> None:
    source = f"""\
        import torch

        class Runner:
            def __init__(self, device):
                self.x = torch.zeros(4, device=device)

            def capture(self):
                graph = {graph}
                with {block}:
                    self.out = self.x * self.x.sum().item()  # block
    """
    assert by_mark(scan(folder, source), source)["block"] == ("GS101", "error", "captured")


@pytest.mark.child
@pytest.mark.parametrize("where", ["option", "configuration"])
def test_one_region_alone(folder: Path, where: str) -> None:
    source = SERVING.replace("# read", "# graphsafe: ignore[GS101] read once a request")
    (folder / "serving.py").write_text(textwrap.dedent(source))
    (folder / "graphsafe.toml").write_text('region = "captured"\n' if where == "configuration" else "")

    def codes(*options: str) -> list[str]:
        command = [sys.executable, "-m", "graphsafe", "scan", ".", "--no-cache", "--format", "concise", *options]
        lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
        return sorted(line.split()[1] for line in lines if ": GS4" not in line)

    # The suppression covers a finding of the other region: it is not unused.
    assert codes(*(["--region", "captured"] if where == "option" else [])) == ["GS101"] * 3
    assert codes("--region", "step") == ["GS102", "GS105", "GS301"]


def test_cold_paths_on_a_runner_do_not_silence_what_it_captures(tmp_path: Path) -> None:
    source = """\
        import torch

        class Runner:
            def capture(self, x: torch.Tensor, stream):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    self.run(x)
                return graph

            def run(self, x):
                return self.inner(x)

            def inner(self, x):
                return x * x.sum().item()

            def report(self, x):
                return x.sum().item()
        """
    (tmp_path / "runner.py").write_text(textwrap.dedent(source), encoding="utf-8")
    (tmp_path / "graphsafe.toml").write_text('cold-paths = ["runner.py"]\n', encoding="utf-8")
    found = scan_paths([tmp_path / "runner.py"], load_config(tmp_path)).findings
    assert [(f.code, f.location.function) for f in found if f.level == "error"] == [("GS101", "Runner.inner")]


SAMPLER = """\
    import torch
    from torch import nn

    class Sampler:
        def __init__(self, device):
            self.generator = torch.Generator(device=device)

        def __call__(self, logits):
            return torch.multinomial(logits.softmax(-1), 1, generator=self.generator)

    class Runner:
        def __init__(self, model, device):
            self.model, self.sampler = model, Sampler(device)

        def execute_model(self, ids: torch.Tensor):
            return self.sampler(self.model(ids))
"""
GRAPH = """
        def capture(self, ids):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.logits = self.model(ids)
"""


def test_a_generator_of_its_own_matters_where_a_graph_may_hold_the_sampler(folder: Path) -> None:
    assert [finding.code for finding in scan(folder, SAMPLER).findings] == ["GS502"]
    # The project's graph holds the model alone, and a sampler beside it may draw as it likes.
    assert "GS502" not in [finding.code for finding in scan(folder, SAMPLER + GRAPH).findings]


POOL = """\
import torch
from torch import nn

class Pool:
    def __init__(self):
        self.turn = 0

    def take(self, x: torch.Tensor):
        self.turn = (self.turn + 1) % 4
        return x[: x.max().item()] * self.turn
"""
LAYER = """
class Layer(nn.Module):
    def forward(self, x: torch.Tensor):
        return x * 2
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (POOL, {("GS101", "error", "captured"), ("GS702", "error", "captured")}),
        (POOL + LAYER, {("GS101", "warning", "step")}),
    ],
    ids="alone beside-a-module".split(),
)
def test_public_functions_stand_around_the_modules_of_their_package(
    folder: Path, source: str, expected: set[tuple[str, str, str]]
) -> None:
    """Nothing shows that a graph holds them; without modules they are all that users may capture."""
    (folder / "library").mkdir()
    (folder / "library" / "__init__.py").write_text("")
    (folder / "library" / "pool.py").write_text(source)
    found = scan_paths([folder], load_config(folder)).findings
    assert {(f.code, f.level, f.region) for f in found if f.level != "note"} == expected


@pytest.mark.parametrize(
    ("begin", "pause", "region"),
    [("def", "time.sleep(1)", "step"), ("async def", "await ready()", "step"), ("def", "time.time()", "captured")],
)
def test_code_that_sleeps_or_awaits_is_in_no_graph(folder: Path, begin: str, pause: str, region: str) -> None:
    source = f"""\
import time

import torch
from torch import nn


{begin} fetched(x):
    {pause}
    return x.cpu()


class Remote(nn.Module):
    def forward(self, x):
        return fetched(x)
"""
    (folder / "remote.py").write_text(source)
    findings = scan_paths([folder], load_config(folder)).findings
    assert [f.region for f in findings if f.code == "GS103"] == [region]


@pytest.mark.parametrize(("name", "codes"), [("ReplayBuffer", []), ("Rollouts", ["GS504"])])
def test_a_replay_buffer_draws_around_graphs(folder: Path, name: str, codes: list[str]) -> None:
    source = f"""\
import numpy as np
import torch


class {name}:
    def sample(self, batch: torch.Tensor):
        return batch[torch.as_tensor(np.random.randint(0, 8, size=4), device=batch.device)]
"""
    (folder / "buffers.py").write_text(source)
    findings = scan_paths([folder], load_config(folder)).findings
    assert [f.code for f in findings if f.code == "GS504"] == codes


@pytest.mark.parametrize(("name", "region"), [("BeamGenerator", "step"), ("Sampler", "captured")])
def test_a_callable_that_generates_a_sequence_stands_around_graphs(folder: Path, name: str, region: str) -> None:
    source = f"""\
import torch


class {name}:
    def __call__(self, prompt: torch.Tensor):
        while self.advance(prompt):
            pass

    def advance(self, prompt):
        return prompt.isnan().any().item()
"""
    assert {f.region for f in scan(folder, source).findings if f.code == "GS101"} == {region}


@pytest.mark.parametrize(("name", "region"), [("prefill", "step"), ("prefill_or_decode", "captured")])
def test_work_on_a_prompt_stands_around_graphs(folder: Path, name: str, region: str) -> None:
    source = f"""\
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor):
        return self.{name}(x, lengths)

    def {name}(self, x, lengths):
        return x[: lengths.max().item()]
"""
    assert {f.region for f in scan(folder, source).findings if f.code == "GS101"} == {region}


def test_what_turns_a_model_in_a_loop_stands_around_graphs_whoever_calls_it(folder: Path) -> None:
    source = """\
import torch
from torch import nn


class Rollout:
    def __init__(self, model):
        self.model = model

    def follow(self, noise, times):
        picked = torch.argmin(noise).item()
        for time in times:
            noise = self.model(noise, time)
        return noise * picked


class Distilled:
    def __init__(self, model):
        self.rollout = Rollout(model)

    def __call__(self, noise: torch.Tensor, times):
        return self.rollout.follow(noise, times)
"""
    assert {f.region for f in scan(folder, source).findings if f.code == "GS101"} == {"step"}


@pytest.mark.parametrize(
    ("turns", "codes"), [("self._env.step(x)", []), ("self.envs.step(x)", []), ("x * 2", ["GS702"])]
)
def test_the_step_of_an_environment_stands_around_graphs(folder: Path, turns: str, codes: list[str]) -> None:
    source = f"""\
import torch


class Repeated:
    def __init__(self, env):
        self._env, self.count = env, 0

    def step(self, x: torch.Tensor):
        self.count += 1
        return {turns}, x * self.count
"""
    assert [f.code for f in scan(folder, source).findings if f.level != "note"] == codes


@pytest.mark.parametrize(("given", "region"), [("actions", "step"), ("hidden", "captured")])
def test_a_step_that_takes_actions_stands_around_graphs(folder: Path, given: str, region: str) -> None:
    """An environment's subclass may choose the actions itself."""
    source = f"""\
import torch


class Task:
    def step(self, {given}: torch.Tensor):
        return self.move({given})

    def move(self, x):
        return x / x.max().item()


class Guided(Task):
    def step(self, weights: torch.Tensor):
        return self.move(weights.softmax(-1))
"""
    assert {f.region for f in scan(folder, source).findings if f.code == "GS101"} == {region}


def test_public_functions_stand_around_the_plain_forward_of_their_package(folder: Path) -> None:
    (folder / "engine").mkdir()
    (folder / "engine" / "__init__.py").write_text("")
    forward = "class Layer:\n    def forward(self, x: torch.Tensor):\n        return x * 2\n"
    (folder / "engine" / "pool.py").write_text(f"{POOL}\n\n{forward}")
    found = scan_paths([folder], load_config(folder)).findings
    assert {(f.code, f.region) for f in found if f.level != "note"} == {("GS101", "step")}


@pytest.mark.parametrize("decorator", ["torch._dynamo.disable", "torch.compiler.disable()"])
def test_functions_that_are_not_compiled_stand_around_the_graphs_of_compiled_code(folder: Path, decorator: str) -> None:
    source = f"""\
        import torch
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.kept = None

            def forward(self, x):
                self.keep(x)
                return x.relu()

            @{decorator}
            def keep(self, x):
                if self.kept is None or self.kept.shape != x.shape:
                    self.kept = torch.empty_like(x)
                self.kept.copy_(x)
                return x.sum().item()
        """
    assert {(f.code, f.region) for f in scan(folder, source).findings if f.level != "note"} == {("GS101", "step")}
    without = source.replace(f"@{decorator}", "")
    assert {(f.code, f.region) for f in scan(folder, without).findings if f.level != "note"} == {
        ("GS101", "captured"),
        ("GS705", "captured"),
    }


RUNNER = """\
import torch


class Runner:
    def __init__(self, net, x):
        self.net, self.x = net, x
        self.graph = torch.cuda.CUDAGraph()

    def body(self, x):
        return self.net(self.planned(x))

    def capture(self):
        self.body(self.x)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.out = {captured}

    def planned(self, x):
        return x[: int(x.max().item())]

    def execute(self, x):
        self.planned(x)
        self.x.copy_(x)
        self.graph.replay()
        return self.out.clone()
"""


@pytest.mark.parametrize(
    ("captured", "region", "callers"),
    [
        ("self.body(self.x)", "captured", ["Runner.capture", "Runner.body"]),
        ("self.net(self.x)", "step", ["Runner.execute"]),
    ],
)
def test_the_chain_to_a_captured_line_begins_at_a_capture(
    tmp_path: Path, captured: str, region: str, callers: list[str]
) -> None:
    (tmp_path / "runner.py").write_text(RUNNER.format(captured=captured), encoding="utf-8")
    found = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS101"]
    (finding,) = [one for one in found if one.location.function == "Runner.planned"]
    assert (finding.region, [site.function for site in finding.call_chain]) == (region, callers)

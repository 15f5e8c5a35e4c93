"""Tensors of a graph in other classes and files: inputs bound anew, outputs kept, weights replaced."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

Scan = Callable[..., list[tuple[str, str, int]]]

RUNNER = """\
import torch


class Captured:
    def capture(self, stream):
        self.forward()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.token = self.forward()


class Runner(Captured):
    def __init__(self, model, rows, device: torch.device):
        self.model = model
        self.mask = torch.ones(rows, dtype=torch.bool, device=device)
        self.ids = torch.zeros(rows, dtype=torch.long, device=device)

    def forward(self):
        token = self.model(self.ids).argmax(-1)
        return torch.where(self.mask, token, self.ids)

    def step(self):
        self.graph.replay()
        return self.token
"""

ENGINE = """\
import torch

from runner import Runner


class Engine:
    def __init__(self, runner: Runner):
        self.runner = runner
        self.kept = []

    def serve(self, steps: int):
        for _ in range(steps):
            {line}
            out = self.runner.step()
            {last}
"""


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """Scan a project of two files, and return the findings above note, without GS606."""

    def run(runner: str, engine: str) -> list[tuple[str, str, int]]:
        for name, text in (("runner.py", runner), ("engine.py", engine)):
            (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
        found = scan_paths([tmp_path], Config(root=tmp_path)).findings
        return [
            (one.code, Path(one.location.path).name, one.location.line)
            for one in found
            if one.level != "note" and one.code != "GS606"
        ]

    return run


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("self.runner.mask = torch.ones_like(self.runner.mask)", [("GS707", "engine.py", 13)]),
        ("self.runner.mask.copy_(torch.ones_like(self.runner.mask))", []),
        ("self.runner.label = 'busy'", []),
    ],
)
def test_an_input_of_another_objects_graph_is_bound_anew(scan: Scan, line: str, expected: object) -> None:
    assert scan(RUNNER, ENGINE.format(line=line, last="self.last = out.clone()")) == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("self.kept.append(out)", [("GS706", "engine.py", 15)]),
        ("self.kept.append(out[:2])", [("GS706", "engine.py", 15)]),
        ("self.kept.append(out.clone())", []),
    ],
)
def test_an_output_of_another_objects_graph_is_kept(scan: Scan, last: str, expected: object) -> None:
    assert scan(RUNNER, ENGINE.format(line="pass", last=last)) == expected


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):", 1),
        ("for slow in self.teacher.parameters():", 1),
        ("for slow in self.other.parameters():", 0),
    ],
)
def test_weights_of_a_captured_module_get_new_memory(scan: Scan, loop: str, found: int) -> None:
    source = f"""\
        import torch


        class Trainer:
            def __init__(self, teacher, student, other, x, stream):
                self.teacher, self.student, self.other, self.x = teacher, student, other, x
                self.stream = stream
                self.graph = None

            def _update(self):
                return self.teacher(self.x) - self.student(self.x)

            def _capture(self):
                self._update()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=self.stream):
                    self.loss = self._update()

            def follow(self):
                {loop}
                    slow.data = torch.lerp(slow.data, slow.data, 0.1)

            def fit(self, batches):
                if self.graph is None:
                    self._capture()
                for x in batches:
                    self.x.copy_(x)
                    self.graph.replay()
                    self.follow()
        """
    assert [place for place in scan(source, "") if place[0] == "GS711"] == [("GS711", "runner.py", 21)] * found


def test_a_schedule_of_a_captured_optimizer(scan: Scan) -> None:
    source = """\
        import torch


        class Trainer:
            def __init__(self, net, x, stream, rate):
                self.net, self.x = net, x
                self.opt = torch.optim.SGD(net.parameters(), lr={rate})
                self.decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma=0.9)
                self._step()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph, stream=stream):
                    self.loss = self._step()

            def _step(self):
                self.opt.zero_grad(set_to_none=True)
                loss = self.net(self.x).sum()
                loss.backward()
                self.opt.step()
                return loss.detach()

            def fit(self, batches):
                for x in batches:
                    self.x.copy_(x)
                    self.graph.replay()
                    self.decay.step()
        """
    assert ("GS702", "runner.py", 25) in scan(source.format(rate="0.1"), "")
    assert ("GS702", "runner.py", 25) not in scan(source.format(rate="torch.tensor(0.1)"), "")


def test_a_state_object_that_is_replaced(scan: Scan) -> None:
    source = """\
        from dataclasses import dataclass, replace

        import torch


        @dataclass(frozen=True)
        class State:
            mean: torch.Tensor
            count: torch.Tensor


        class Filter:
            def __init__(self, state: State):
                self.state = state

            def __call__(self, z):
                {line}
                return self.state.mean


        def build(device):
            state = State(torch.zeros(4, device=device), torch.ones((), device=device))
            return Filter(state), (torch.randn(4, device=device),)
        """
    for line in (
        "self.state = State(self.state.mean + z, self.state.count + 1)",
        "self.state = replace(self.state, mean=self.state.mean + z)",
    ):
        assert scan(source.format(line=line), "") == [("GS703", "runner.py", 17)]
    assert scan(source.format(line="self.state.mean.add_(z)"), "") == []


CHAIN = """\
    import torch


    class Chain:
        def __init__(self, device):
            self.now = torch.zeros(4, device=device)
            self.mean = torch.zeros(4, device=device)
            self.rate = 0.1

        def advance(self):
            self.now.add_(self.mean, alpha=self.rate)

        def cool(self):
            self.rate *= 0.9

        def settle(self):
            self.mean = self.mean + self.now


    class Recorder:
        def __init__(self, work, stream):
            self.work, self.stream = work, stream
            self.graph = None

        def record(self):
            self.work()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.work()

        def __call__(self):
            if self.graph is None:
                self.record()
            self.graph.replay()


    class Fast(Recorder):
        pass
    """
LOOP = """\
    import torch

    from runner import Chain, Fast


    class Anneal:
        def __init__(self, chain: Chain, stream):
            self.chain = chain
            self.step = Fast(chain.advance, stream)

        def run(self, rounds):
            for i in range(rounds):
                self.step()
                if i % 100 == 0:
                    {line}
            return self.chain.mean.clone()


    def main(device, rounds=1000):
        chain = Chain(device)
        return Anneal(chain, torch.cuda.Stream(device)).run(rounds)
    """


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("self.chain.rate *= 0.9", [("GS702", "engine.py", 15)]),
        ("self.chain.cool()", [("GS702", "runner.py", 14)]),
        ("self.chain.mean = self.chain.mean * 0.5", [("GS703", "engine.py", 15)]),
        ("self.chain.mean.mul_(0.5)", []),
        ("self.rounds = i", []),
    ],
)
def test_a_loop_changes_what_another_objects_captured_code_has_read(
    scan: Scan, line: str, found: list[tuple[str, str, int]]
) -> None:
    assert scan(CHAIN, LOOP.format(line=line)) == found


def test_what_a_first_step_captures_is_replayed_in_the_others(scan: Scan) -> None:
    source = CHAIN.replace("self.now.add_(self.mean, alpha=self.rate)", "self.now.add_(self.mean.sum().item())")
    assert ("GS101", "runner.py", 11) in scan(source, LOOP.format(line="pass"))


@pytest.mark.parametrize("end", ["graph.capture_end()", "finally: graph.capture_end()"])
def test_calls_that_begin_and_end_a_capture_are_a_block(scan: Scan, end: str) -> None:
    is_final = end.startswith("finally")
    lines = ["self.y = self.net(self.x)", "print(self.y.sum().item())"]
    body = ["try:", *(f"    {line}" for line in lines), end] if is_final else [*lines, end]
    source = "\n".join(
        [
            "import torch",
            "",
            "",
            "class Runner:",
            "    def __init__(self, net, device):",
            "        self.net, self.x = net, torch.zeros(4, device=device)",
            "        net(self.x)",
            "        graph = self.graph = torch.cuda.CUDAGraph()",
            "        graph.capture_begin()",
            *(f"        {line}" for line in body),
            "",
            "    def step(self, x):",
            "        self.x = x",
            "        self.graph.replay()",
            "        return self.y.clone()",
        ]
    )
    told = scan(source, "")
    assert ("GS101", "runner.py", 12 if is_final else 11) in told
    assert ("GS707", "runner.py", source.splitlines().index("        self.x = x") + 1) in told


AROUND = """\
import torch


def record(fn, stream):
    fn()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        fn()
    return graph


def solve(net, problems, stream):
    x, target = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")

    def sweep():
        error = net(x) - target
        x.sub_(0.1 * error)

    {capture}
    for problem in problems:
        {change}
        graph.replay()
    return x.clone()
"""
HANDED = "graph = record(sweep, stream)"
BLOCK = """graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        sweep()"""


@pytest.mark.parametrize("capture", [HANDED, BLOCK])
@pytest.mark.parametrize(
    ("change", "found"),
    [("target = problem * 2", True), ("target.copy_(problem)", False), ("error = problem.abs()", False)],
)
def test_a_name_that_an_inner_captured_function_reads(tmp_path: Path, capture: str, change: str, found: bool) -> None:
    text = AROUND.format(capture=capture, change=change)
    assert (("GS707", change) in _found(tmp_path, text)) is found


TRAINED = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, stream):
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).cuda(){mode}
        self.opt = torch.optim.Adam(self.net.parameters(), capturable=True)
        self.x = torch.zeros(4, 4, device="cuda")
        {capture}

    def capture(self, stream):
        self.update()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.update()

    def update(self):
        self.loss = self.net(self.x).square().mean()
        self.loss.backward()
        self.opt.step()

    def step(self, x):
        self.x.copy_(x)
        self.graph.replay()

    def between(self, saved):
        {line}
        {replay}
        self.net.train()
"""
MOVED, LOADED, SWITCHED = "self.net.to('cpu')", "self.opt.load_state_dict(saved)", "self.net.eval()"


@pytest.mark.parametrize(
    ("line", "replay", "mode", "capture", "code"),
    [
        (MOVED, "pass", "", "self.capture(stream)", "GS711"),
        (MOVED, "pass", "", "pass", None),  # a program may capture afterwards
        (LOADED, "pass", "", "self.capture(stream)", "GS711"),
        (LOADED, "pass", "", "pass", None),
        (SWITCHED, "self.graph.replay()", "", "self.capture(stream)", "GS702"),
        (SWITCHED, "self.graph.replay()", ".eval()", "self.capture(stream)", None),
        (SWITCHED, "self.net(saved)", "", "self.capture(stream)", None),
    ],
)
def test_captured_modules_and_optimizers_changed_between_replays(
    tmp_path: Path, line: str, replay: str, mode: str, capture: str, code: str | None
) -> None:
    text = TRAINED.format(line=line, replay=replay, mode=mode, capture=capture)
    assert [one for one, at in _found(tmp_path, text) if at == line] == ([code] if code else [])


@pytest.mark.parametrize("momentum", ["", ", momentum=0.9"])
def test_sgd_without_momentum_has_no_state_to_load(tmp_path: Path, momentum: str) -> None:
    text = TRAINED.format(line=LOADED, replay="pass", mode="", capture="self.capture(stream)")
    start = text.index("self.opt = ")
    made = text[start : text.index("\n", start)]
    told = _found(tmp_path, text.replace(made, f"self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1{momentum})"))
    assert (("GS711", LOADED) in told) is bool(momentum)


def test_a_mode_that_no_layer_depends_on(tmp_path: Path) -> None:
    text = TRAINED.format(line=SWITCHED, replay="self.graph.replay()", mode="", capture="self.capture(stream)")
    assert SWITCHED not in {at for _, at in _found(tmp_path, text.replace("nn.Dropout()", "nn.ReLU()"))}


FREED = """\
import torch


def causal(n):
    rows = torch.arange(n, device="cuda")
    return (rows[:, None] >= rows[None, :]).float()


class Runner:
    def __init__(self, net, stream):
        self.net, self.stream, self.graphs = net, stream, {{}}

    def record(self, n):
        x = torch.zeros(n, n, device="cuda")
        mask = {made}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            out = self.net(x, mask)
        self.graphs[n] = {kept}
"""


@pytest.mark.parametrize(
    ("made", "kept", "found"),
    [
        ("causal(n)", "(graph, x, out)", True),
        ("torch.ones(n, device='cuda') * 2", "(graph, x, out)", True),
        ("causal(n)", "(graph, x, mask, out)", False),
        ("1.0 / n", "(graph, x, out)", False),
    ],
)
def test_what_dies_with_the_function_that_captures(tmp_path: Path, made: str, kept: str, found: bool) -> None:
    assert (("GS711", f"mask = {made}") in _found(tmp_path, FREED.format(made=made, kept=kept))) is found


SERVED = """\
import torch


class Server:
    def __init__(self, net, stream):
        self.x = torch.zeros(4, 4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = net(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y

    def serve(self, queue):
        while True:
            requests = queue.get()
            self.x.copy_(queue.rows)
            self.graph.replay()
            for i, request in enumerate(requests):
                request.answer = self.y[i]{copied}


def collect(net, batches, stream):
    run = Server(net, stream)
    kept = []
    for batch in batches:
        kept.append(run(batch)[:2].detach(){copied})
    return kept
"""


@pytest.mark.parametrize("copied", ["", ".clone()"])
def test_outputs_that_requests_and_lists_keep(tmp_path: Path, copied: str) -> None:
    lines = {at for code, at in _found(tmp_path, SERVED.format(copied=copied)) if code == "GS706"}
    kept = {f"request.answer = self.y[i]{copied}", f"kept.append(run(batch)[:2].detach(){copied})"}
    assert lines & kept == (set() if copied else kept)


def _found(folder: Path, text: str) -> list[tuple[str, str]]:
    """Return the code and the line of each finding above note."""
    (folder / "module.py").write_text(text, encoding="utf-8")
    report = scan_paths([folder], Config(root=folder))
    lines = text.splitlines()
    return [(one.code, lines[one.location.line - 1].strip()) for one in report.findings if one.level != "note"]

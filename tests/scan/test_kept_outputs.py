"""Outputs of a graph that callers keep past the next replay."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

from .conftest import Scan

STEP = """
import torch

class Captured:
    def __init__(self, net, device):
        self.x = torch.zeros(4, 8, device=device)
        stream = torch.cuda.Stream(device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y, self.score = net(self.x)

    def advance(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return {returned}

class Search:
    def __init__(self, step):
        self.step = step

    def look(self, x):
        found, score = self.step.advance(x)
        return x.sum(), found, score
"""
CALLER = """
def drive(step, search, batches):
    kept = []
    last = 0.0
    for x in batches:
"""


def kept(tmp_path: Path, body: str, returned: str = "self.y, self.score") -> set[str]:
    """Return the lines of the loop that have GS706."""
    text = STEP.format(returned=returned) + CALLER + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n"
    (tmp_path / "drive.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    lines = text.splitlines()
    loop = lines.index("    for x in batches:") + 1
    found = [one.location.line for one in report.findings if one.code == "GS706"]
    return {lines[line - 1].strip() for line in found if line > loop}


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(score)",
        "kept.append((x, y.flatten(1)))",
        "kept.append([score[0], 1])",
        "for i, item in enumerate(x.unbind()): kept.append((item, y[i]))",
    ],
)
def test_a_part_of_the_result_is_kept(tmp_path: Path, line: str) -> None:
    assert kept(tmp_path, f"y, score = step.advance(x)\n{line}") == {line}


@pytest.mark.parametrize(
    "line",
    [
        "kept.append(score.clone())",
        "kept.append((x, y.sum()))",
        "kept.append(y[x.argmax(-1)])",
        "score = score.clone(); kept.append(score)",
        "best = x.argmax(-1); kept.append(y[best])",
    ],
)
def test_copies_of_the_result_may_be_kept(tmp_path: Path, line: str) -> None:
    assert kept(tmp_path, f"y, score = step.advance(x)\n{line}") == set()


def test_only_the_outputs_among_the_returned_values_count(tmp_path: Path) -> None:
    body = "y, score = step.advance(x)\nkept.append(y)\nkept.append(score)"
    assert kept(tmp_path, body, "self.y.clone(), self.score") == {"kept.append(score)"}
    assert kept(tmp_path, body, "self.y.clone(), self.score.clone()") == set()


def test_the_result_of_a_method_that_passes_it_on(tmp_path: Path) -> None:
    assert kept(tmp_path, "total, y, score = search.look(x)\nkept.append(score)") == {"kept.append(score)"}
    assert kept(tmp_path, "total, y, score = search.look(x)\nkept.append(total)") == set()


def test_the_next_round_compares_an_output_with_itself(tmp_path: Path) -> None:
    body = "total, y, score = search.look(x)\nchange = score - last\n"
    assert kept(tmp_path, body + "last = score.detach()") == {"last = score.detach()"}
    assert kept(tmp_path, body + "last, total = score, total + 1") == {"last, total = score, total + 1"}
    assert kept(tmp_path, body + "last = score.clone()") == set()
    # It is read before the next replay alone.
    assert kept(tmp_path, "total, y, score = search.look(x + last)\nlast = score") == set()


GENERATOR = """
    def stream(self, batches):
        for x in batches:
            yield {handed}
"""


@pytest.mark.parametrize(
    ("handed", "collected", "found"),
    [
        ("self.advance(x)", "list(captured.stream(batches))", True),
        ("self.advance(x)", "[y for y in captured.stream(batches)]", True),
        ("self.advance(x)", "[y.clone() for y in captured.stream(batches)]", False),
        ("self.advance(x).clone()", "list(captured.stream(batches))", False),
        ("(x, self.advance(x))", "[y for _, y in captured.stream(batches)]", True),
        ("(x, self.advance(x))", "[x for x, _ in captured.stream(batches)]", False),
        ("self.advance(x)", "sum(y.sum() for y in captured.stream(batches))", False),
    ],
)
def test_what_a_generator_hands_out_is_collected(tmp_path: Path, handed: str, collected: str, found: bool) -> None:
    end = STEP.index("\nclass Search")
    text = STEP[:end].format(returned="self.y") + GENERATOR.format(handed=handed)
    text += f"\ndef drive(captured, batches):\n    return {collected}  # here\n"
    assert _lines_told(tmp_path, text, "# here") == found


@pytest.mark.parametrize(("handed", "found"), [("self.y", True), ("self.y.clone()", False)])
def test_a_generator_that_replays_itself(tmp_path: Path, handed: str, found: bool) -> None:
    text = STEP[: STEP.index("    def advance")].format() + GENERATOR.format(handed=handed)
    text = text.replace("            yield", "            self.x.copy_(x); self.graph.replay()\n            yield")
    text += "\ndef drive(captured, batches):\n    return [y for y in captured.stream(batches)]  # here\n"
    assert _lines_told(tmp_path, text, "# here") == found


@pytest.mark.parametrize(("held", "found"), [("right", True), ("right.clone()", False), ("users", False)])
def test_callables_that_are_made_and_called_in_pairs(tmp_path: Path, held: str, found: bool) -> None:
    text = f"""
import torch

def train(left_tower, right_tower, batches):
    kept = []
    for users, items in batches:
        left, right = left_tower(users), right_tower(items)
        kept.append({held})  # here
    return kept

def main(towers, samples, batches):
    left_tower, right_tower = torch.cuda.make_graphed_callables(towers, samples)
    return train(left_tower, right_tower, batches)
"""
    assert _lines_told(tmp_path, text, "# here") == found


@pytest.mark.parametrize(("block", "found"), [("torch.cuda.graph(graph)", True), ("torch.no_grad()", False)])
def test_a_context_manager_of_the_file_that_captures(tmp_path: Path, block: str, found: bool) -> None:
    text = f"""
import torch
from contextlib import contextmanager

@contextmanager
def recording(graph, warm):
    warm()
    with {block}:
        yield

class Solver:
    def __init__(self, net):
        self.net, self.x = net, torch.zeros(8, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def prepare(self):
        with recording(self.graph, lambda: self.net(self.x)):
            self.y = self.net(self.x)

    def solve(self, rounds):
        kept = []
        for _ in range(rounds):
            self.graph.replay()
            kept.append(self.y)  # here
        return kept
"""
    assert _lines_told(tmp_path, text, "# here") == found


@pytest.mark.parametrize(
    ("made", "kept", "found"),
    [
        ('torch.compile(net, mode="reduce-overhead")', "self.seen[len(x)] = y", True),
        ('torch.compile(net, mode="reduce-overhead")', "self.seen[len(x)] = y.clone()", False),
        ("torch.compile(net)", "self.seen[len(x)] = y", False),
        ("torch.cuda.make_graphed_callables(net, (net.example,))", "self.kept.append(y.detach())", True),
        ("torch.cuda.make_graphed_callables(net, (net.example,))", "self.kept.append(y.sum())", False),
    ],
)
def test_callables_whose_graphs_pytorch_makes(tmp_path: Path, made: str, kept: str, found: bool) -> None:
    text = f"""
import torch

class Service:
    def __init__(self, net):
        self.net = net
        self.run = {made}
        self.seen, self.kept = {{}}, []

    def handle(self, x):
        y = self.run(x)
        {kept}  # here
        return y.argmax()
"""
    assert _lines_told(tmp_path, text, "# here") == found


@pytest.mark.parametrize(
    ("kept", "later", "found"),
    [
        ("tokens.append(first)", "second = pick(net, first)", True),
        ("tokens.append(first.clone())", "second = pick(net, first)", False),
        ("tokens.append(first)", "second = net(first)", False),
    ],
)
def test_a_result_in_a_list_is_overwritten_by_the_next_call(tmp_path: Path, kept: str, later: str, found: bool) -> None:
    text = f"""
import torch

@torch.compile(mode="reduce-overhead")
def pick(net, x):
    return net(x).argmax(-1)

@torch.inference_mode()
def generate(net, prompt):
    tokens = [prompt]
    first = pick(net, prompt)
    {kept}  # here
    {later}
    tokens.append(second)
    return torch.cat(tokens)
"""
    assert _lines_told(tmp_path, text, "# here") == found


def _lines_told(tmp_path: Path, text: str, mark: str) -> bool:
    (tmp_path / "drive.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    told = {text.splitlines()[one.location.line - 1] for one in report.findings if one.code == "GS706"}
    return any(mark in line for line in told)


SERVER = """
import torch

class Server:
    def __init__(self, net, rows, device):
        self.net = net
        self.x = torch.zeros(rows, 8, device=device)
        self.total = torch.zeros(rows, 4, device=device)
        self.graph = torch.cuda.CUDAGraph()
        self.y = self._capture(torch.cuda.Stream(device))

    def _work(self):
        y = self.net(self.x)
        self.total.add_(y)
        torch.mul(self.x, 2, out=self.x)
        return y

    def _capture(self, stream):
        self._work()
        with torch.cuda.graph(self.graph, stream=stream):
            return self._work()

    def serve(self, jobs):
        kept = []
        for _ in range(len(jobs)):
            self.graph.replay()
            for row, job in enumerate(jobs):
                {line}  # here
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("job.future.set_result(self.y[row])", True),
        ("job.future.set_result(self.y[row].clone())", False),
        ("job.future.set_result(self.y[job.rows])", False),
        ("kept.append(self.total)", True),
        ("kept.append(self.total.clone())", False),
        ("kept.append(self.x[:4])", True),
        ("kept.append(self.net)", False),
    ],
)
def test_what_a_captured_block_returns_and_what_it_changes_in_place(tmp_path: Path, line: str, found: bool) -> None:
    assert _lines_told(tmp_path, SERVER.format(line=line), "# here") == found


RUNNER = """
import torch

class Runner:
    def __init__(self, net, device):
        self.net, self.x = net, torch.zeros(4, 8, device=device)
        self.graph = torch.cuda.CUDAGraph()

    def build(self):
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.x)
        return {returned}

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y

def main(net, device, batches):
    runner = Runner(net, device).build()
    last = None
    for x in batches:
        y = runner(x)
        if last is not None:
            print((y - last).shape)
        last = y
"""


@pytest.mark.parametrize(("returned", "found"), [("self", True), ("self.net", False)])
def test_an_object_that_a_method_returns_after_its_constructor(tmp_path: Path, returned: str, found: bool) -> None:
    (tmp_path / "runner.py").write_text(RUNNER.format(returned=returned), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert ("GS706" in {one.code for one in report.findings}) is found


ROLLOUT = """
import torch

class Store:
    def __init__(self, size, device):
        self.rows, self.held = torch.zeros(size, 8, device=device), []

    def put(self, at, value):
        {body}

class Worker:
    def __init__(self, net, device):
        self.x = torch.zeros(8, device=device)
        self.store = Store(16, device)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream(device)):
            self.y = net(self.x)

    def collect(self, batches):
        for at, x in enumerate(batches):
            self.x.copy_(x)
            self.graph.replay()
            self.store.put(at, self.y)
"""


@pytest.mark.parametrize(("body", "found"), [("self.rows[at].copy_(value)", False), ("self.held.append(value)", True)])
def test_a_method_of_the_users_that_is_called_like_a_containers(tmp_path: Path, body: str, found: bool) -> None:
    (tmp_path / "rollout.py").write_text(ROLLOUT.format(body=body), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert ("GS706" in {one.code for one in report.findings}) is found


CALLBACKS = """
import torch

class Callback:
    def on_step(self, number, outputs):
        pass

class Keep(Callback):
    def __init__(self):
        self.kept, self.total = [], 0.0

    def on_step(self, number, outputs):
        {body}  # here

class Engine:
    def __init__(self, net, callbacks):
        self.net, self.callbacks = net, callbacks
        self.x = torch.zeros(8, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outputs = self.net(self.x)

    def run(self, batches):
        for number, x in enumerate(batches):
            self.x.copy_(x)
            self.graph.replay()
            for callback in self.callbacks:
                callback.on_step(number, {given})
"""


@pytest.mark.parametrize(
    ("body", "given", "found"),
    [
        ('self.kept.append(outputs["logits"])', "self.outputs", True),
        ('self.kept.append(outputs["logits"].clone())', "self.outputs", False),
        ('outputs = dict(outputs); self.kept.append(outputs["logits"])', "self.outputs", False),
        ("self.kept.append(outputs)", "self.outputs.sum()", False),
        ("self.kept.append(number)", "self.outputs", False),
        ("self.total += outputs.sum()", "self.outputs", False),
    ],
)
def test_a_callback_keeps_an_output(tmp_path: Path, body: str, given: str, found: bool) -> None:
    assert _lines_told(tmp_path, CALLBACKS.format(body=body, given=given), "# here") == found


BY_SIZE = """
import torch

class Runner:
    def __init__(self, net, sizes, stream):
        self.x = torch.zeros(8, 8, device="cuda")
        self.graphs, self.outs = {{}}, {{}}
        for n in sizes:
            net(self.x[:n])
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                out = net(self.x[:n])
            {kept}

    def run(self, x):
        n = x.shape[0]
        self.x[:n].copy_(x)
{taken}

def collect(runner, batches):
    return [runner.run(x) for x in batches]
"""


@pytest.mark.parametrize(
    ("kept", "taken", "found"),
    [
        ("self.graphs[n], self.outs[n] = graph, out", "self.graphs[n].replay(); return self.outs[n]", True),
        ("self.graphs[n] = graph; self.outs[n] = out[:n]", "self.graphs[n].replay(); return self.outs[n][:n]", True),
        ("self.graphs[n] = graph, out", "graph, out = self.graphs[n]; graph.replay(); return out", True),
        ("self.outs[n] = out; self.graphs[n] = graph", "y = self.outs[n]; self.graphs[n].replay(); return y", True),
        ("self.outs[n] = out; self.graphs[n] = graph", "self.graphs[n].replay(); y = self.outs[n]; return y", True),
        ("self.graphs[n] = graph, out", "graph, out = self.graphs[n]; graph.replay(); return n", False),
        ("self.graphs[n] = graph, out", "graph, y = self.graphs[n]; graph.replay(); y = y.clone(); return y", False),
        ("self.graphs[n] = graph; self.outs[n] = out", "self.graphs[n].replay(); return self.outs[n].clone()", False),
        (
            "out = out.clone(); self.graphs[n], self.outs[n] = graph, out",
            "self.graphs[n].replay(); return self.outs[n]",
            False,
        ),
        ("self.graphs[n], self.outs[n] = graph, net(out)", "self.graphs[n].replay(); return self.outs[n]", False),
    ],
)
def test_outputs_that_a_table_holds_by_size(tmp_path: Path, kept: str, taken: str, found: bool) -> None:
    text = BY_SIZE.format(kept=kept, taken=textwrap.indent(taken.replace("; ", "\n"), " " * 8))
    (tmp_path / "serve.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    lines = {one.location.line for one in report.findings if one.code == "GS706"}
    assert (len(text.splitlines()) in lines) is found


AROUND = """\
class Tank:
    def __init__(self, stream):
        self.stream, self.rows = stream, []
        self.height = torch.ones(4, device="cuda")
        self.wind = torch.ones(4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def step(self):
        self.height.add_(self.wind)

    def record(self):
        self.step()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.step()

def simulate(tank, other, tanks, steps):
    frames = []
    {loop}:
        {first}
        {second}
    return frames
"""
STEPS = "for _ in range(steps)"


@pytest.mark.parametrize(
    ("loop", "first", "second", "found"),
    [
        (STEPS, "tank.graph.replay()", "frames.append(tank.height)", True),
        (STEPS, "tank.graph.replay()", "frames.append((tank.height[0], 1))", True),
        (STEPS, "tank.graph.replay()", "frames.append(tank.height.clone())", False),
        (STEPS, "tank.graph.replay()", "frames.append(tank.wind)", False),
        (STEPS, "tank.graph.replay()", "frames.append(other.height)", False),
        (STEPS, "tank.other.replay()", "frames.append(tank.height)", False),
        (STEPS, "tank.graph.replay(); tank = other", "frames.append(tank.height)", False),
        ("for tank in tanks", "tank.graph.replay()", "frames.append(tank.height)", False),
        ("if steps", "tank.graph.replay()", "frames.append(tank.height)", False),
    ],
)
def test_an_object_whose_graph_is_replayed_from_outside(
    scan: Scan, loop: str, first: str, second: str, found: bool
) -> None:
    source = AROUND.format(loop=loop, first=first, second=second)
    assert [one for one in scan(source) if one[0] == "GS706"] == [("GS706", second)] * found


SHOWN = """
def show(tank, other, tanks, steps):
    {loop}:
        for _ in range(4):
            {first}
        yield {handed}

def main(tank, other, tanks):
    frames = {collected}
    torch.save(frames, "frames.pt")
"""
COLLECTED = "list(show(tank, other, tanks, 8))"


@pytest.mark.parametrize(
    ("loop", "first", "handed", "collected", "found"),
    [
        (STEPS, "tank.graph.replay()", "tank.height", COLLECTED, True),
        (
            STEPS,
            "tank.graph.replay()",
            "tank.height",
            "[frame.view(2, 2) for frame in show(tank, other, tanks, 8)]",
            True,
        ),
        (STEPS, "tank.graph.replay()", "tank.height", "[one.cpu() for one in show(tank, other, tanks, 8)]", False),
        (STEPS, "tank.graph.replay()", "tank.height.clone()", COLLECTED, False),
        (STEPS, "tank.graph.replay()", "tank.wind", COLLECTED, False),
        (STEPS, "tank.graph.replay()", "other.height", COLLECTED, False),
        ("for tank in tanks", "tank.graph.replay()", "tank.height", COLLECTED, False),
        ("if steps", "tank.graph.replay()", "tank.height", COLLECTED, False),
    ],
)
def test_a_generator_that_replays_the_graph_of_an_object(
    scan: Scan, loop: str, first: str, handed: str, collected: str, found: bool
) -> None:
    tank = AROUND.partition("def simulate")[0]
    source = tank + SHOWN.format(loop=loop, first=first, handed=handed, collected=collected)
    assert ("GS706" in [code for code, _ in scan(source)]) is found


@pytest.mark.parametrize(
    ("returned", "found"), [("layer.y", True), ("layer.y[0]", True), ("layer.y.clone()", False), ("layer.x", False)]
)
def test_a_method_replays_the_graphs_of_other_objects(tmp_path: Path, returned: str, found: bool) -> None:
    text = f"""
import torch

class LayerGraph:
    def __init__(self, layer, x, stream):
        self.x = x
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = layer(x)

class Stack:
    def __init__(self, layers, x, stream):
        self.x = x
        self.graphs = [LayerGraph(layer, x, stream) for layer in layers]

    def turn(self, x):
        self.x.copy_(x)
        for layer in self.graphs:
            layer.graph.replay()
        return {returned}

def drive(stack, batches):
    kept = []
    for x in batches:
        y = stack.turn(x)
        kept.append(y)  # here
    return kept
"""
    assert _lines_told(tmp_path, text, "# here") == found


MADE = """
def graphed(fn, example, stream):
    static = example.clone()
    fn(static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = fn(static)

    def replay(x):
        static.copy_(x)
        graph.replay()
        return {returned}

    return replay


class Filter:
    def __init__(self, fn, stream):
        self.step = graphed(fn, torch.zeros(4, device="cuda"), stream)

    def run(self, xs):
        means = []
        for x in xs:
            mean = self.step(x)
            means.append(mean)
        return torch.stack(means)
"""


@pytest.mark.parametrize(("returned", "kept"), [("out", True), ("out.clone()", False)])
def test_a_function_that_another_function_makes(scan: Scan, returned: str, kept: bool) -> None:
    found = scan(MADE.format(returned=returned))
    assert (("GS706", "means.append(mean)") in found) is kept


HOLDER = """
from types import SimpleNamespace


def build(model, stream):
    s = SimpleNamespace()
    s.x = torch.zeros(8, 4, device="cuda")
    model(s.x)
    s.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(s.graph, stream=stream):
        s.y = model(s.x)
    return s


def serve(model, stream, batches):
    s = build(model, stream)
    kept = []
    for batch in batches:
        {fill}
        s.graph.replay()
        kept.append({held})
    return kept
"""


@pytest.mark.parametrize(
    ("fill", "held", "told"),
    [
        ("s.x.copy_(batch)", "s.y", {("GS706", "kept.append(s.y)")}),
        ("s.x = batch", "s.y.clone()", {("GS707", "s.x = batch")}),
        ("s.x.copy_(batch)", "s.y.clone()", set()),
    ],
)
def test_an_object_that_gets_its_tensors_one_by_one(
    scan: Scan, fill: str, held: str, told: set[tuple[str, str]]
) -> None:
    found = scan(HOLDER.format(fill=fill, held=held))
    assert {one for one in found if one[0].startswith("GS7")} == told

"""Graphs that are kept beside their tensors, and what is changed around them after the capture."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import load_config
from graphsafe.scan.api import scan_paths

HEAD = """
    import torch
    from dataclasses import dataclass

    class Entry:
        def __init__(self, graph, x, y):
            self.graph, self.source, self.result = graph, x, y

    @dataclass
    class Kept:
        graph: torch.cuda.CUDAGraph
        source: torch.Tensor
        result: torch.Tensor

    class Sized:
        def __init__(self, fn, device, stream):
            self.fn, self.device, self.stream = fn, device, stream
            self.entries = {}

        def capture(self, n):
            x = torch.zeros(n, 8, device=self.device)
            self.fn(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                y = self.fn(x)
            self.entries[n] = ENTRY
"""
USES = [
    ("(graph, x, y)", "graph, source, result = self.entries[n]", "graph", "source", "result"),
    ("Entry(graph, x, y)", "entry = self.entries[n]", "entry.graph", "entry.source", "entry.result"),
    (
        "types.SimpleNamespace(graph=graph, source=x, result=y)",
        "entry = self.entries[n]",
        "entry.graph",
        "entry.source",
        "entry.result",
    ),
    ("Kept(graph, source=x, result=y)", "entry = self.entries[n]", "entry.graph", "entry.source", "entry.result"),
    ('{"g": graph, "x": x, "y": y}', "entry = self.entries[n]", 'entry["g"]', 'entry["x"]', 'entry["y"]'),
    ("dict(g=graph, x=x, y=y)", "entry = self.entries[n]", 'entry["g"]', 'entry["x"]', 'entry["y"]'),
]


def found(folder: Path, source: str) -> set[tuple[str, str]]:
    """The code of each finding above a note, with the mark on its line."""
    text = textwrap.dedent(source)
    (folder / "engine.py").write_text(text, encoding="utf-8")
    findings = [f for f in scan_paths([folder], load_config(folder)).findings if f.level != "note"]
    return {(f.code, text.splitlines()[f.location.line - 1].partition("  # ")[2]) for f in findings}


@pytest.mark.parametrize(("entry", "taken", "graph", "source", "result"), USES)
def test_what_is_kept_beside_a_graph_keeps_its_role(
    tmp_path: Path, entry: str, taken: str, graph: str, source: str, result: str
) -> None:
    text = (
        HEAD.replace("ENTRY", entry)
        + f"""
        def keep(self, n, batch):
            {taken}
            {source}.copy_(batch, non_blocking=True)
            {graph}.replay()
            self.last.append({result}[:n])  # kept

        def rebind(self, n, batch):
            {taken}
            {source} = batch  # rebound
            {graph}.replay()

        def sound(self, n, batch):
            {taken}
            {source}.copy_(batch, non_blocking=True)
            {graph}.replay()
            self.last.append({result}.clone())
    """
    )
    assert found(tmp_path, text) == {("GS706", "kept"), ("GS707", "rebound")}


OBJECT = """
    import torch

    class Graphed:
        def __init__(self, fn, x, stream):
            self.x = x
            fn(self.x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = fn(self.x)

        def __call__(self, x):
            self.x.copy_(x, non_blocking=True)
            self.graph.replay()
            return self.y.view(-1)  # returned

    class Sound(Graphed):
        def __call__(self, x):
            return super().__call__(x).clone()

    class Service:
        def __init__(self, fn, x, stream):
            self.run = Graphed(fn, x, stream)
            self.safe = Sound(fn, x, stream)

        def serve(self, batches):
            kept = []
            for batch in batches:
                kept.append(self.run(batch))  # kept
            return kept

        def total(self, batches, total):
            for batch in batches:
                total.add_(self.run(batch))
            return total

        def served(self, batches):
            return [self.safe(batch) for batch in batches]
"""


def test_an_object_that_is_called_may_return_the_output(tmp_path: Path) -> None:
    assert found(tmp_path, OBJECT) == {("GS706", "returned"), ("GS706", "kept")}


STREAM = """
    import torch

    class Recogniser:
        def __init__(self, net, device, stream):
            self.net = net
            self.frames = torch.zeros(1, 20, 8, device=device)
            self.stream = stream

        def record(self):
            self.net(self.frames)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.scores = self.net(self.frames)

        def hear(self, chunk):
            n = chunk.shape[0]
            self.frames[0, :n].copy_(chunk, non_blocking=True)  # part
            self.graph.replay()
            return self.scores.clone()

        def hear_padded(self, chunk):
            n = chunk.shape[0]
            self.frames[0, :n].copy_(chunk, non_blocking=True)
            self.frames[0, n:].zero_()
            self.graph.replay()
            return self.scores.clone()

        def hear_rows(self, chunk):
            n = chunk.shape[0]
            self.frames[0, :n].copy_(chunk, non_blocking=True)
            self.graph.replay()
            return self.scores[:, :n].clone()

        def feed_back(self):
            self.graph.replay()
            self.frames = self.scores.clone()  # behind the replay
"""
DERIVED = """
    import torch

    class Film:
        def __init__(self, net, device, stream):
            self.net, self.stream = net, stream
            self.z = torch.zeros(1, 20, 8, device=device)

        def record(self):
            rows = self.z.shape[0]
            scaled = self.z * 0.5  # derived
            self.net(scaled, rows)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.frame = self.net(scaled, rows)

        def show(self, z):
            self.z.copy_(z, non_blocking=True)
            self.graph.replay()
            return self.frame.clone()
"""


def test_inputs_are_stale_where_nothing_fills_or_reads_them_again(tmp_path: Path) -> None:
    assert found(tmp_path, STREAM) == {("GS708", "part"), ("GS707", "behind the replay")}


def test_a_local_tensor_may_be_computed_from_an_attribute_before_the_capture(tmp_path: Path) -> None:
    assert found(tmp_path, DERIVED) == {("GS705", "derived")}


SWALLOWED = """
    import torch

    class Graphs:
        def record(self, fn, x, stream):
            fn(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = fn(x)

        def prepare(self, fn, x, stream):
            try:
                self.record(fn, x, stream)
            except Exception:  # swallowed
                self.graph = None

        def prepare_or_fail(self, fn, x, stream):
            try:
                self.record(fn, x, stream)
            except Exception as error:
                raise RuntimeError("no graph for this size") from error

        def prepare_with_files(self, fn, x, stream):
            try:
                self.record(fn, x, stream)
            except FileNotFoundError:
                pass
"""


def test_a_capture_may_fail_in_a_function_that_a_try_calls(tmp_path: Path) -> None:
    assert found(tmp_path, SWALLOWED) == {("GS605", "swallowed")}


SUPPRESSED = """
    import contextlib
    import torch

    class Graphs:
        def record(self, fn, x, stream):
            fn(x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = fn(x)

        def prepare(self, fn, x, stream):
            with contextlib.suppress(RuntimeError):  # suppressed
                self.record(fn, x, stream)

        def prepare_with_files(self, fn, x, stream):
            with contextlib.suppress(FileNotFoundError):
                self.record(fn, x, stream)
"""


def test_a_context_manager_may_end_the_failure_of_a_capture(tmp_path: Path) -> None:
    assert found(tmp_path, SUPPRESSED) == {("GS605", "suppressed")}


SLICES = """
    import torch

    class Sizes:
        def __init__(self, net, sizes, device, stream):
            self.rows = torch.zeros(max(sizes), 8, device=device)
            self.marks = torch.zeros(max(sizes), device=device)
            self.graphs, self.outs = {}, {}
            for n in sizes:
                net(self.rows[:n], self.marks[:n])
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    self.outs[n] = net(self.rows[:n], self.marks[:n])
                self.graphs[n] = graph

        def run(self, rows, marks, size):
            n = rows.shape[0]
            self.rows[:n].copy_(rows, non_blocking=True)
            self.marks = marks  # rebound
            self.graphs[size].replay()
            return self.outs[size].clone()
"""


def test_a_capture_may_read_a_part_of_an_input_for_each_size(tmp_path: Path) -> None:
    assert found(tmp_path, SLICES) == {("GS707", "rebound")}


METHODS = """
    import torch

    class State:
        def __init__(self, h):
            self.h = h

    class Agent:
        def __init__(self, net, device, stream):
            self.net = net
            self.state = State(torch.zeros(4, device=device))
            self.batch = torch.zeros(32, 8, device=device)
            self.update()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.update()

        def update(self):
            self.out = self.loss()

        def loss(self):
            return self.net(self.batch, self.state.h)

        def learn(self, batch):
            self.batch = batch  # rebound
            self.graph.replay()

        def learn_in_place(self, batch, h):
            self.state.h.copy_(h, non_blocking=True)
            self.batch.copy_(batch, non_blocking=True)
            self.graph.replay()

        def reset(self):
            self.state = State(torch.zeros_like(self.state.h))  # made anew

        def clear(self):
            self.state.h.zero_()
"""
CLOSURE = """
    import torch

    def make(fn, x, stream):
        fn(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            out = fn(x)

        def advance(new):
            x.copy_(new, non_blocking=True)
            graph.replay()
            return out  # returned

        return advance

    def collect(fn, x: torch.Tensor, stream, batches):
        advance, kept = make(fn, x, stream), []
        take = make(fn, x, stream)
        for batch in batches:
            y = advance(batch)
            kept.append(y)  # kept
        for batch in batches:
            y = take(batch)
            kept.append(y.clone())
            if x.isnan().any():  # a turn
                break
        return kept
"""


def test_a_graph_holds_what_the_methods_do_that_the_capture_calls(tmp_path: Path) -> None:
    assert found(tmp_path, METHODS) == {("GS707", "rebound"), ("GS707", "made anew")}


def test_a_function_that_a_capturing_one_returns_takes_a_step(tmp_path: Path) -> None:
    assert found(tmp_path, CLOSURE) == {("GS706", "returned"), ("GS706", "kept"), ("GS102", "a turn")}


RELOADED = """
    import torch

    class Endpoint:
        def __init__(self, net, other, device, stream):
            self.net, self.other = net, other
            self.x = torch.zeros(4, 8, device=device)
            self.net(self.x)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = self.net(self.x)

        def reload(self, weights):
            for name, parameter in self.net.named_parameters():
                parameter.data = weights[name]  # reloaded

        def switch(self, weights):
            for path, module in self.net.named_modules():
                if isinstance(module, torch.nn.Linear):
                    module.weight = torch.nn.Parameter(weights[path])  # switched
                    module.bias.data = weights[path]  # moved

        def reload_in_place(self, weights):
            for name, parameter in self.net.named_parameters():
                parameter.data.copy_(weights[name], non_blocking=True)
            for name, parameter in self.other.named_parameters():
                parameter.data = weights[name]

        def run(self, x):
            self.x.copy_(x, non_blocking=True)
            self.graph.replay()
            return self.y.clone()
"""


def test_a_loop_may_put_other_weights_into_a_captured_module(tmp_path: Path) -> None:
    assert {mark for _, mark in found(tmp_path, RELOADED)} == {"reloaded", "switched", "moved"}


PADDED = """
    import torch

    class Server:
        def __init__(self, net, sizes, line):
            self.net, self.line = net, line
            self.rows = torch.zeros(max(sizes), 8, device="cuda")
            self.slots = torch.zeros(max(sizes), dtype=torch.long, device="cuda")
            self.tapes = {}
            for size in sizes:
                self.tapes[size] = self._tape(size)

        def _tape(self, size):
            mask = torch.ones(size, size, device="cuda").tril()
            mask /= mask.sum(1, keepdim=True)
            KEEP
            self.net(self.rows[:size], self.slots[:size], mask)
            tape = torch.cuda.CUDAGraph()
            with torch.cuda.graph(tape, stream=self.line):
                marks = self.net(self.rows[:size], self.slots[:size], mask)
            return tape, marks

        def serve(self, rows, slots):
            size = next(one for one in sorted(self.tapes) if one >= len(rows))
            self.rows[: len(rows)].copy_(rows)
            self.slots[: len(slots)].copy_(slots)
            REST
            tape, marks = self.tapes[size]
            tape.replay()
            return marks[: len(rows)].clone()
"""


@pytest.mark.parametrize(
    ("keep", "rest", "expected"),
    [
        ('self.net.register_buffer(f"mask{size}", mask)', "self.slots[len(slots) :].fill_(-1)", set()),
        ("pass", "self.slots[len(slots) :].fill_(-1)", {"GS711"}),
        ('self.net.register_buffer(f"mask{size}", mask)', "pass", {"GS708"}),
    ],
)
def test_tensors_of_a_padded_batch_live_on_and_are_refreshed(
    tmp_path: Path, keep: str, rest: str, expected: set[str]
) -> None:
    (tmp_path / "server.py").write_text(textwrap.dedent(PADDED).replace("KEEP", keep).replace("REST", rest), "utf-8")
    found = scan_paths([tmp_path], load_config(tmp_path)).findings
    assert {one.code for one in found if one.level != "note" and one.code.startswith("GS7")} == expected


BY_SIZE = """
    import torch

    class Runner:
        def __init__(self, model, stream):
            self.model, self.stream = model, stream
            self.graphs, self.inputs, self.outputs = {}, {}, {}

        def capture(self, n):
            self.model(self.inputs[n])
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                self.outputs[n] = self.model(self.inputs[n])
            self.graphs[n] = graph

        def run(self, batch):
            n = len(batch)
            if n not in self.graphs:
                self.inputs[n] = batch.clone()  # first
                self.capture(n)
            REFILL  # each
            self.graphs[n].replay()
            return self.outputs[n].clone()
"""


@pytest.mark.parametrize(
    ("refill", "expected"), [("self.inputs[n] = batch", {("GS707", "each")}), ("self.inputs[n].copy_(batch)", set())]
)
def test_inputs_in_a_table_by_size(tmp_path: Path, refill: str, expected: set[tuple[str, str]]) -> None:
    places = found(tmp_path, BY_SIZE.replace("REFILL", refill))
    assert {(code, mark) for code, mark in places if code in ("GS703", "GS707")} == expected
    made = BY_SIZE.replace("REFILL", refill).replace("if n not in self.graphs:", "if False:")
    made = made.replace("self.capture(n)", "pass").replace("{}, {}, {}", "{}, {}, {}\n            self.capture(8)")
    assert (("GS707", "each") in found(tmp_path, made)) is bool(expected)
    # A method that may return an earlier graph does not make the line sound.
    asked = BY_SIZE.replace("REFILL", "self.inputs[n] = batch  # each\n            self.capture(n)")
    asked = asked.replace(
        "def capture(self, n):", "def capture(self, n):\n            if n in self.graphs:\n                return"
    )
    assert ("GS707", "each") in found(tmp_path, asked)
    one = BY_SIZE.replace("REFILL", refill)
    for table in ("graphs", "inputs", "outputs"):
        one = one.replace(f"self.{table}[n]", f"self.{table}")
    places = found(tmp_path, one.replace("n not in self.graphs", "not self.graphs"))
    assert {(code, mark) for code, mark in places if code in ("GS703", "GS707")} == expected


SAMPLER = """
    import torch
    from dataclasses import dataclass

    @dataclass
    class Entry:
        graph: torch.cuda.CUDAGraph
        rows: torch.Tensor
        heat: torch.Tensor
        scale: torch.Tensor
        out: torch.Tensor

    class Sampler:
        def __init__(self, fn, stream):
            self.fn, self.stream, self.entries = fn, stream, {}

        def _record(self, size, params):
            rows = torch.zeros(size, 8, device="cuda")
            heat = torch.full((1,), params.heat, device="cuda")
            scale = torch.full((1,), params.scale, device="cuda")
            self.fn(rows, heat, scale)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                out = self.fn(rows, heat, scale)
            return Entry(graph, rows, heat, scale, out)

        def sample(self, rows, params):
            key = KEY
            entry = self.entries.get(key)
            if entry is None:
                entry = self.entries[key] = self._record(len(rows), params)
            entry.rows.copy_(rows)
            entry.heat.fill_(params.heat)
            REST
            entry.graph.replay()  # replay
            return entry.out.clone()
"""


@pytest.mark.parametrize(
    ("key", "rest", "expected"),
    [
        ("len(rows)", "pass", True),
        ("len(rows)", "entry.scale.fill_(params.scale)", False),
        ("(len(rows), params.scale)", "pass", False),
        ("(len(rows), params)", "pass", False),
        ("len(rows)", "self.refill(entry, params)", False),
    ],
)
def test_a_field_of_an_argument_that_no_replay_gets(tmp_path: Path, key: str, rest: str, expected: bool) -> None:
    assert (("GS708", "replay") in found(tmp_path, SAMPLER.replace("KEY", key).replace("REST", rest))) is expected


def test_a_table_of_places_that_no_replay_gets(tmp_path: Path) -> None:
    source = """
    import torch

    class Verifier:
        def __init__(self, net, rows, span):
            self.net = net
            self.window = torch.zeros(rows, span, dtype=torch.long, device="cuda")
            self.places = torch.arange(span, device="cuda").repeat(rows, 1)
            self.graph = torch.cuda.CUDAGraph()

        def capture(self, stream):
            with torch.cuda.graph(self.graph, stream=stream):
                self.choice = self.net(self.window, self.places)

        def verify(self, window, places):
            self.window.copy_(window)
            REST
            self.graph.replay()  # replay
            return self.choice.clone()
    """
    assert ("GS708", "replay") in found(tmp_path, source.replace("REST", "pass"))
    assert ("GS708", "replay") not in found(tmp_path, source.replace("REST", "self.places.copy_(places)"))


BATCHES = """
    import torch

    class Engine:
        def __init__(self, net):
            self.net = net
            self.graphs = {}

        def capture(self, batch, stream):
            token = torch.zeros(batch, dtype=torch.long, device="cuda")
            slot = torch.arange(batch, device="cuda")
            self.net(token, slot)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                out = self.net(token, slot)
            self.graphs[batch] = (graph, token, slot, out)

        def decode(self, tokens, slots):
            graph, token, slot, out = self.graphs[len(tokens)]
            token.copy_(tokens)
            REST
            graph.replay()  # replay
            return out.clone()
"""


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("pass", True),
        ("slot.copy_(slots)", False),
        ("self.refill(slot, slots)", False),
    ],
)
def test_an_argument_that_a_stored_graph_never_gets(tmp_path: Path, rest: str, expected: bool) -> None:
    assert (("GS708", "replay") in found(tmp_path, BATCHES.replace("REST", rest))) is expected


CAUGHT = """
    import os
    import sys
    import torch

    def fail(error):
        print("no graph")
        raise RuntimeError("no graph") from error

    class Graphs:
        def fail(self, error):
            print(error)
            os._exit(1)

        def record(self, fn, x, stream):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=stream):
                self.y = fn(x)

        def prepare(self, fn, x, stream):
            fn(x)
            failure, failures = None, []
            try:
                self.record(fn, x, stream)
            except RuntimeError as error:
                HANDLER  # goes on
            LATER
"""
IN_PLACE = """graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):  # goes on
                    self.y = fn(x)"""


@pytest.mark.parametrize("here", [True, False], ids=["here", "called"])
@pytest.mark.parametrize(
    ("handler", "later", "ends"),
    [
        ("print(error); sys.exit(1)", "", True),
        ("os._exit(1)", "", True),
        ("fail(error)", "", True),
        ("self.fail(error)", "", True),
        ("print(error)", "", False),
        ("failure = error", "", False),
        ("failure = error", "if failure is not None: raise RuntimeError('no graph') from failure", True),
        ("failures.append(error)", "if failures: raise failures[0]", True),
        ("self.graph = None", "if self.graph is None: raise RuntimeError('no graph')", True),
        ("self.graph = None", "if fn is None: raise RuntimeError('no step')", False),
    ],
)
def test_a_handler_goes_on_unless_it_raises_ends_the_process_or_keeps_what_is_raised_later(
    tmp_path: Path, handler: str, later: str, ends: bool, here: bool
) -> None:
    source = CAUGHT.replace("HANDLER", handler).replace("LATER", later or "pass")
    source = source.replace("self.record(fn, x, stream)", IN_PLACE) if here else source
    assert ("GS605" in {code for code, _ in found(tmp_path, source)}) is not ends


BUCKETS = """
    import torch

    class Bucket:
        def __init__(self, size):
            self.size = size

    class Sizes:
        def __init__(self, net, device, stream):
            self.net, self.device, self.stream = net, device, stream
            self.buckets = {}

        def record(self, size):
            PREPARED
            self.net(LENGTHS, starts)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                INSIDE
                out = self.net(LENGTHS, starts)
            KEPT
            self.buckets[size] = bucket

        def run(self, lengths):
            bucket = self.buckets[lengths.shape[0]]
            REFILLED
            GRAPH.replay()
            return OUT.clone()
"""
DICT = {
    "PREPARED": """lengths = torch.ones(size, device=self.device)
            starts = lengths.cumsum(0)  # derived""",
    "LENGTHS": "lengths",
    "INSIDE": "pass",
    "KEPT": """bucket = {"lengths": lengths}
            bucket["graph"], bucket["out"] = graph, out""",
    "REFILLED": 'bucket["lengths"][:].copy_(lengths, non_blocking=True)',
    "GRAPH": 'bucket["graph"]',
    "OUT": 'bucket["out"]',
}
OBJECT_OF_SIZE = {
    "PREPARED": """bucket = Bucket(size)
            bucket.lengths = torch.ones(size, device=self.device)
            starts = bucket.lengths.cumsum(0)  # derived""",
    "LENGTHS": "bucket.lengths",
    "INSIDE": "pass",
    "KEPT": "bucket.graph, bucket.out = graph, out",
    "REFILLED": "bucket.lengths.copy_(lengths, non_blocking=True)",
    "GRAPH": "bucket.graph",
    "OUT": "bucket.out",
}


@pytest.mark.parametrize(
    ("form", "changed", "is_stale"),
    [
        (DICT, {}, True),
        (DICT, {"INSIDE": "starts = lengths.cumsum(0)"}, False),
        (DICT, {"KEPT": 'bucket = {"lengths": lengths, "starts": starts, "graph": graph, "out": out}'}, False),
        (DICT, {"REFILLED": "self.refresh(bucket, lengths)"}, False),
        (DICT, {"REFILLED": "pass"}, False),
        (OBJECT_OF_SIZE, {}, True),
        (OBJECT_OF_SIZE, {"REFILLED": "bucket.refresh(lengths)"}, False),
    ],
)
def test_a_value_computed_from_an_input_that_a_bucket_holds(
    tmp_path: Path, form: dict[str, str], changed: dict[str, str], is_stale: bool
) -> None:
    text = BUCKETS
    for name, code in {**form, **changed}.items():
        text = text.replace(name, code)
    assert ("GS705" in {code for code, _ in found(tmp_path, text)}) is is_stale


REPLACED = """
    import copy

    import torch

    class Host:
        def __init__(self, make, device, stream):
            self.make, self.stream = make, stream
            self.net = make(device)
            self.x = torch.zeros(4, 8, device=device)
            self.version = 0
            self.net(self.x)
            self.record()

        def record(self):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.y = self.net(self.x)

        def reload(self, device):
            self.version += 1
            BODY

        def run(self, x):
            self.x.copy_(x, non_blocking=True)
            self.graph.replay()
            return self.y.clone()
"""


@pytest.mark.parametrize(
    ("body", "constructor", "is_stale"),
    [
        ("self.net = self.make(device)  # replaced", "self.record()", True),
        ("self.net = copy.deepcopy(self.net)", "self.record()", False),
        ("self.net = self.make(device); self.record()", "self.record()", False),
        ("self.net = self.make(device)", "self.version = 1", False),
        ("self.head = self.make(device)", "self.record()", False),
    ],
)
def test_another_module_replaces_the_captured_one(tmp_path: Path, body: str, constructor: str, is_stale: bool) -> None:
    text = REPLACED.replace("BODY", body).replace("self.record()\n\n", f"{constructor}\n\n", 1)
    assert (("GS711", "replaced") in found(tmp_path, text)) is is_stale
    assert is_stale or "GS711" not in {code for code, _ in found(tmp_path, text)}

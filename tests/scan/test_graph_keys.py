"""Keys of kept graphs that lack what the capture froze."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

SERVER = """\
from dataclasses import dataclass

import torch


@dataclass
class Request:
    ids: torch.Tensor
    lengths: list
    surface: str


class Server:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.graphs = {{}}

    def _key(self, request):
        return len(request.ids), request.surface

    def _capture(self, size: int, {taken}):
        ids = torch.zeros(size, dtype=torch.long, device="cuda")
        self.model(ids, {used})
        graph = torch.cuda.CUDAGraph()
        inputs = (ids, {used})
        with torch.cuda.graph(graph, stream=self.stream):
            out = self.model(*inputs)
        return graph, ids, out

    def step(self, request, explore=True):
        size = len(request.ids)
        blocks = max(request.lengths) // 16 + 1
        key = {key}
        held = self.graphs.get(key)
        if held is None:
            held = self.graphs[key] = self._capture(size, {given})
        graph, ids, out = held
        ids.copy_(request.ids)
        graph.replay()
        return out.clone()
"""


@pytest.mark.parametrize(
    ("taken", "used", "given", "key", "lacks"),
    [
        ("blocks: int", "blocks", "blocks", "size", "blocks"),
        ("blocks: int", "blocks", "blocks", "(size, blocks)", None),
        ("blocks: int", "blocks", "blocks", "(size, max(request.lengths))", None),
        ("rows: int", "rows", "size", "size", None),
        ("explore", "explore", "explore", "size", "explore"),
        ("explore", "explore", "explore", "(size, explore)", None),
        ("request", "request.surface", "request", "size", "request.surface"),
        ("request", "request.surface", "request", "(size, request.surface)", None),
        ("request", "request.surface", "request", "self._key(request)", None),
        ("request", "request.ids.dtype", "request", "size", None),
    ],
)
def test_a_key_lacks_what_the_capture_froze(
    tmp_path: Path, taken: str, used: str, given: str, key: str, lacks: str | None
) -> None:
    text = textwrap.dedent(SERVER).format(taken=taken, used=used, given=given, key=key)
    (tmp_path / "server.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    found = [one.message for one in report.findings if one.code == "GS713"]
    assert [message.split("`")[1] for message in found] == ([lacks] if lacks else [])


UNANNOTATED = """\
import torch


class Coarse:
    def __init__(self, model, stream):
        self.model, self.stream, self.graphs = model, stream, {{}}

    def capture(self, n, length):
        x = torch.zeros(n, 8, device="cuda")
        self.model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            y = {captured}
        return graph, x, y

    def run(self, batch, length):
        n = len(batch)
        key = {key}
        if key not in self.graphs:
            self.graphs[key] = self.capture(n, length)
        graph, x, y = self.graphs[key]
        x.copy_(batch)
        graph.replay()
        return y.clone()
"""


@pytest.mark.parametrize(
    ("captured", "key", "found"),
    [
        ("self.model(x)[:, :length]", "n", True),
        ("sum(self.model(x) for _ in range(length))", "n", True),
        ("self.model(x)[:, :length]", "(n, length)", False),
        ("self.model(x)[:, :n]", "n", False),
        ("self.model(x).add(length)", "n", False),  # perhaps a tensor
    ],
)
def test_a_slice_shows_that_an_argument_is_a_number(tmp_path: Path, captured: str, key: str, found: bool) -> None:
    (tmp_path / "coarse.py").write_text(UNANNOTATED.format(captured=captured, key=key), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert ("GS713" in {one.code for one in report.findings}) is found


LENGTH = """\
import torch


class Runner:
    def __init__(self, net, device, stream):
        self.net, self.stream = net, stream
        self.length = 1
        self.x = torch.zeros(64, 8, device=device)
        self.graphs = {{}}

    def _capture(self, n):
        {before}
        self.net(self.x[: self.length], self.length)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            y = self.net(self.x[: self.length], self.length)
        self.graphs[n] = graph, y

    def step(self, n):
        self.length = n
        {ask}
        graph, y = self.graphs[n]
        graph.replay()
        return y.clone()
"""


@pytest.mark.parametrize(
    ("before", "ask", "found"),
    [
        ("self.length = n", "pass", False),
        ("pass", "if n not in self.graphs: self._capture(n)", False),
        ("pass", "pass", True),
    ],
)
def test_a_number_of_the_object_that_each_graph_has_for_itself(
    tmp_path: Path, before: str, ask: str, found: bool
) -> None:
    (tmp_path / "runner.py").write_text(LENGTH.format(before=before, ask=ask), encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    assert any(one.code == "GS702" for one in report.findings) == found


SHELF = """\
from typing import NamedTuple

import torch


class Query(NamedTuple):
    rows: torch.Tensor
    top: int


def padded(n):
    return 1 << (n - 1).bit_length()


class Shelf:
    def __init__(self, net, line):
        self.net, self.line = net, line
        self.tapes = {{}}

    def ask(self, rows, pooling="mean"):
        return self.answer(Query(rows, 10), pooling)

    def answer(self, query, pooling):
        size = padded(len(query.rows))
        key = {key}
        if key not in self.tapes:
            self.tapes[key] = self._tape(size, query.top, pooling)
        tape, rows, marks = self.tapes[key]
        rows[: len(query.rows)].copy_(query.rows)
        rows[len(query.rows) :].zero_()
        tape.replay()
        return marks.clone()

    def _tape(self, size, count, pooling):
        rows = torch.zeros(size, 8, device="cuda")
        self.net(rows, pooling)
        tape = torch.cuda.CUDAGraph()
        with torch.cuda.graph(tape, stream=self.line):
            marks = self.net(rows, pooling).topk(count)
        return tape, rows, marks
"""


@pytest.mark.parametrize(
    ("key", "found"), [("size", True), ("(size, query.top)", True), ("(size, query.top, pooling)", False)]
)
def test_numbers_that_other_lines_of_the_file_declare(tmp_path: Path, key: str, found: bool) -> None:
    """The class declares `top`, and the default of another method shows that `pooling` is no tensor."""
    (tmp_path / "shelf.py").write_text(SHELF.format(key=key), encoding="utf-8")
    lines = [one.location.line for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    stored = 1 + SHELF.format(key=key).splitlines().index(
        "            self.tapes[key] = self._tape(size, query.top, pooling)"
    )
    assert lines == ([stored] if found else [])


STORING = """\
import torch


class Runner:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.graphs = {{}}
        self.x = torch.zeros(64, 8, device="cuda")

    def capture(self, n: int, scale: float, timeout: float = 1.0):
        self.model(self.x[:n] * scale)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            out = self.model(self.x[:n]{used})
        self.graphs[{key}] = graph, out

    def step(self, x, scale: float, timeout: float):
        n = x.shape[0]
        if {test}:
            {call}
        self.x[:n].copy_(x)
        graph, out = self.graphs[{asked}]
        graph.replay()
        return out.clone()
"""


@pytest.mark.parametrize(
    ("used", "key", "test", "call", "found"),
    [
        (" * scale", "n", "n not in self.graphs", "self.capture(n, scale)", True),
        (" * scale", "n", "self.graphs.get(n) is None", "self.capture(n, scale=scale)", True),
        (" * scale", "n, scale", "(n, scale) not in self.graphs", "self.capture(n, scale)", False),
        ("", "n", "n not in self.graphs", "self.capture(n, scale)", False),
        (" * scale", "n", "n not in self.graphs", "self.capture(n, 0.5)", False),
        (" * scale", "n", "n not in self.graphs", "self.capture(n, 0.5, timeout)", False),
    ],
)
def test_a_method_that_keeps_the_graph_itself(
    tmp_path: Path, used: str, key: str, test: str, call: str, found: bool
) -> None:
    text = STORING.format(used=used, key=key, test=test, call=call, asked=key)
    (tmp_path / "runner.py").write_text(text, encoding="utf-8")
    report = scan_paths([tmp_path], Config(root=tmp_path))
    lines = [text.splitlines()[one.location.line - 1].strip() for one in report.findings if one.code == "GS713"]
    assert lines == [call] * found


INLINE = """\
import torch

class Server:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.graph, self.graphs = None, {{}}

    def step(self, x, scale: float, flag=True):
{body}

    def fill(self, x, graph, ids, out):
        ids.copy_(x)
        graph.replay()
        return out.clone()
"""
ONE = """\
if {test}:
    self.ids = x.clone()
    self.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(self.graph, stream=self.stream):
        self.out = self.model(self.ids, {given})
self.ids.copy_(x)
{more}
self.graph.replay()
return self.out.clone()
"""
EARLY = """\
if self.graph is not None:
    self.ids.copy_(x)
    self.graph.replay()
    return self.out.clone()
self.ids = x.clone()
self.graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(self.graph, stream=self.stream):
    self.out = self.model(self.ids, {given})
self.graph.replay()
return self.out.clone()
"""
MANY = """\
n = {key}
if n not in self.graphs:
    ids = x.clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=self.stream):
        out = self.model(ids, {given})
    self.graphs[n] = (graph, ids, out)
graph, ids, out = self.graphs[n]
ids.copy_(x)
graph.replay()
return out.clone()
"""


@pytest.mark.parametrize(
    ("body", "lacks"),
    [
        (ONE.format(test="self.graph is None", given="scale", more=""), "scale"),
        (ONE.format(test="self.graph is None", given="flag=flag", more=""), "flag"),
        (ONE.format(test="self.graph is None", given="self.side", more="self.side.fill_(scale)"), None),
        (ONE.format(test="self.graph is None", given="scale", more="assert scale == self.scale"), None),
        (ONE.format(test="self.anew", given="scale", more=""), None),
        (EARLY.format(given="scale"), "scale"),
        (EARLY.format(given="x.shape[0]"), None),
        (MANY.format(key="x.shape[0]", given="scale"), "scale"),
        (MANY.format(key="(x.shape[0], scale)", given="scale"), None),
    ],
)
def test_an_argument_that_only_the_call_that_captures_reads(tmp_path: Path, body: str, lacks: str | None) -> None:
    text = INLINE.format(body=textwrap.indent(body, " " * 8))
    (tmp_path / "serve.py").write_text(text, encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == ([] if lacks is None else [lacks])


RETURNED = """\
import torch


class Decoder:
    def __init__(self, model, stream, first: int):
        self.model, self.stream, self.first = model, stream, first
        self.graphs = {{}}
        self.shift = 0
        self.ids = torch.zeros(8, dtype=torch.long, device="cuda")
        self.table = torch.zeros(512, 64, device="cuda")

    def prompt(self, ids, shift: int):
        self.shift = shift

    def _graph(self, slot: int, angle: int):
        graph = self.graphs.get({key})
        if graph is not None:
            return graph
        turn = self.table[angle]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.out = self.model(self.ids, turn, slot)
        self.graphs[{key}] = graph
        return graph

    def step(self, ids, slot: int):
        self.ids.copy_(ids)
        angle = slot + {added}
        self._graph(slot, angle).replay()
        return self.out.clone()
"""


@pytest.mark.parametrize(
    ("key", "added", "lacks"),
    [
        ("slot", "self.shift", ["angle"]),
        ("(slot, angle)", "self.shift", []),
        ("slot", "self.first", []),
        ("slot", "1", []),
    ],
)
def test_an_argument_of_a_returned_graph_that_changes_without_the_key(
    tmp_path: Path, key: str, added: str, lacks: list[str]
) -> None:
    (tmp_path / "decode.py").write_text(RETURNED.format(key=key, added=added), encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == lacks


OPTIONS = """\
import torch

LANGUAGES = {{"en": 0, "de": 1}}


class EncoderGraph:
    def __init__(self, model, size, language, stream):
        self.x = torch.zeros(size, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.y = model(self.x, language)


class Transcriber:
    def __init__(self, model, stream):
        self.model, self.stream = model, stream
        self.graphs = {{}}

    def entry(self, size, language):
        key = {key}
        if key not in self.graphs:
            self.graphs[key] = EncoderGraph(self.model, size, {given}, self.stream)
        return self.graphs[key]

    def __call__(self, x, language):
        entry = self.entry(x.shape[0], language)
        entry.x.copy_(x)
        entry.graph.replay()
        return entry.y.clone()
"""


@pytest.mark.parametrize(
    ("key", "given", "lacks"),
    [
        ("size", "LANGUAGES[language]", ["language"]),
        ("(size, language)", "LANGUAGES[language]", []),
        ("size", "self.weights[language]", []),
        ("size", "LANGUAGES['en']", []),
    ],
)
def test_an_option_from_a_table_that_a_captured_constructor_takes(
    tmp_path: Path, key: str, given: str, lacks: list[str]
) -> None:
    (tmp_path / "speech.py").write_text(OPTIONS.format(key=key, given=given), encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == lacks


VOCODER = """\
import torch


class Buckets:
    def __init__(self, vocoder, stream):
        self.vocoder, self.stream = vocoder, stream
        self.recorded = {}

    def get(self, frames, noise_scale):
        if frames not in self.recorded:
            self.recorded[frames] = self.record(frames, noise_scale)
        return self.recorded[frames]

    def record(self, frames, noise_scale):
        mel = torch.zeros(1, 80, frames, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            audio = self.vocoder(mel, noise_scale)
        return graph, mel, audio
"""
CHUNK = """\
from dataclasses import dataclass

from buckets import Buckets


@dataclass
class Chunk:
    frames: int
    noise_scale: {kind} = 0.1


def serve(buckets: Buckets, chunks: list[Chunk]):
    for chunk in chunks:
        graph, mel, audio = buckets.get(chunk.frames, chunk.noise_scale)
        mel.zero_()
        graph.replay()
"""


@pytest.mark.parametrize(("kind", "lacks"), [("float", ["noise_scale"]), ("object", [])])
def test_a_field_of_another_file_shows_that_an_argument_is_a_number(
    tmp_path: Path, kind: str, lacks: list[str]
) -> None:
    (tmp_path / "buckets.py").write_text(VOCODER, encoding="utf-8")
    (tmp_path / "serve.py").write_text(CHUNK.format(kind=kind), encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == lacks


SOLVER = """\
import torch


class Solver:
    def __init__(self, net, x):
        self.net, self.x = net, x
        self.graphs = {{}}

    def graph_for(self, count, drag):
        if count not in self.graphs:
            self.net(self.x[:count], drag)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                self.out = self.net(self.x[:count], drag)
            self.graphs[count] = graph
        return self.graphs[count]

    def advance(self, count, drag):
        self.graph_for(count, drag).replay()


def main(solver, tensors):
    for {names} in {values}:
        solver.advance(16, {given})
"""


@pytest.mark.parametrize(
    ("names", "values", "given", "lacks"),
    [
        ("stage, drag", "enumerate((0.5, 0.2))", "drag", ["drag"]),
        ("stage, drag", "zip(('a', 'b'), (0.5, 0.2))", "drag", ["drag"]),
        ("drag", "(0.5, 0.2)", "drag", ["drag"]),
        ("n", "range(8)", "n % 2 == 0", ["drag"]),
        ("n", "range(8)", "n % 2 == 0 and n > 4", ["drag"]),
        ("stage, drag", "enumerate(tensors)", "drag", []),
        ("stage, drag", "zip((0.5, 0.2), tensors)", "drag", []),
        ("x", "tensors", "x == 0", []),
    ],
)
def test_calls_show_that_an_argument_is_a_number(
    tmp_path: Path, names: str, values: str, given: str, lacks: list[str]
) -> None:
    (tmp_path / "solver.py").write_text(SOLVER.format(names=names, values=values, given=given), encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == lacks


TRIED = """\
import torch


class Pool:
    def __init__(self, net, stream):
        self.net, self.stream = net, stream
        self.entries = {{}}

    def acquire(self, n, temperature):
        try:
            return self.entries[{key}]
        except KeyError:
            x = torch.zeros(n, 16, device="cuda")
            self.net(x, temperature)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                y = self.net(x, temperature)
            self.entries[{key}] = graph, x, y
            return self.entries[{key}]

    def run(self, batch, temperature: float):
        graph, x, y = self.acquire(len(batch), temperature)
        x.copy_(batch)
        graph.replay()
        return y.clone()
"""


@pytest.mark.parametrize(("key", "lacks"), [("n", ["temperature"]), ("n, temperature", [])])
def test_a_graph_that_is_captured_after_a_missing_key(tmp_path: Path, key: str, lacks: list[str]) -> None:
    (tmp_path / "pool.py").write_text(TRIED.format(key=key), encoding="utf-8")
    findings = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS713"]
    assert [one.message.split("`")[1] for one in findings] == lacks

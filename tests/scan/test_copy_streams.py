"""The order of replays and of the copies that feed them, on streams and in pinned memory."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from graphsafe.config import Config
from graphsafe.scan.api import scan_paths

RING = """\
import torch


class Upload:
    def __init__(self, dest):
        self.dest = dest
        self.taken = torch.cuda.Event()
        self.landed = torch.cuda.Event()
        self.line = torch.cuda.Stream()

    def send(self, rows):
        {before}
        with torch.cuda.stream(self.line):
            self.dest[: rows.shape[0]].copy_(rows, non_blocking=True)  # send
            self.landed.record()


class Model:
    def __init__(self, net, size):
        self.rows = torch.zeros(size, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        line = torch.cuda.Stream()
        line.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(line):
            net(self.rows)
        torch.cuda.current_stream().wait_stream(line)
        with torch.cuda.graph(self.graph, stream=line):
            self.marks = net(self.rows)


def serve(model: Model, upload: Upload, requests):
    for rows in requests:
        upload.send(rows.pin_memory())
        {after}
        model.graph.replay()
        upload.taken.record()
"""


def lines_of(tmp_path: Path, code: str, text: str) -> list[str]:
    """Return the marks of the lines that have a finding of a code."""
    path = tmp_path / "loop.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    found = scan_paths([tmp_path], Config(root=tmp_path)).findings
    lines = path.read_text(encoding="utf-8").splitlines()
    return [lines[one.location.line - 1].rpartition("# ")[2] for one in found if one.code == code]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("pass", "torch.cuda.current_stream().wait_event(upload.landed)", ["send"]),
        ("self.line.wait_event(self.taken)", "pass", ["send"]),
        ("self.line.wait_event(self.taken)", "torch.cuda.current_stream().wait_event(upload.landed)", []),
        ("self.line.wait_event(self.taken)", "torch.cuda.current_stream().wait_stream(upload.line)", []),
        ("self.line.wait_event(self.taken)", "upload.landed.synchronize()", []),
        ("self.line.wait_event(self.taken)", "torch.cuda.synchronize()", []),
    ],
)
def test_a_copy_and_the_replays_around_it_wait_for_each_other(
    tmp_path: Path, before: str, after: str, expected: list[str]
) -> None:
    assert lines_of(tmp_path, "GS714", RING.format(before=before, after=after)) == expected


ACTOR = """\
import torch


class Actor:
    def __init__(self, policy):
        self.policy = policy
        self.stream = torch.cuda.Stream()
        self.obs = torch.zeros(4, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def record(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.policy(self.obs)
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.action = self.policy(self.obs)

    def act(self, obs):
        self.obs.copy_(obs{option})  # act
        {between}
        with torch.cuda.stream(self.stream):
            {inside}
            self.graph.replay()
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.action.clone()


def run(policy, steps):
    actor = Actor(policy)
    actor.record()
    obs = torch.randn(4, 8, device="{device}")
    for _ in range(steps):
        obs = obs + actor.act(obs).to("{device}")
"""
COPY, COPY_ASYNC = "self.obs.copy_(obs)", "self.obs.copy_(obs, non_blocking=True)"


@pytest.mark.parametrize(
    ("option", "between", "inside", "device", "expected"),
    [
        ("", COPY, "pass", "cuda", ["act", COPY]),
        ("", COPY, "pass", "cpu", []),  # the host waits
        ("", "self.stream.wait_stream(torch.cuda.current_stream())", "pass", "cuda", []),
        ("", "torch.cuda.synchronize()", "pass", "cuda", []),
        ("", COPY, "self.stream.wait_stream(torch.cuda.default_stream())", "cuda", []),
        (", non_blocking=True", COPY_ASYNC, "pass", "cpu", ["act", COPY_ASYNC]),
        (", non_blocking=True", COPY, "pass", "cpu", []),
    ],
)
def test_an_input_that_is_filled_before_a_replay_on_another_stream(
    tmp_path: Path, option: str, between: str, inside: str, device: str, expected: list[str]
) -> None:
    source = ACTOR.format(option=option, between=between, inside=inside, device=device)
    assert [*map(str.strip, lines_of(tmp_path, "GS714", source))] == expected


TAKEN = """\
import torch


class Canceller:
    def __init__(self, net, stream):
        self.net = net
        self.x = torch.zeros(4, 8, device="cuda")
        self.side = {made}
        self.done = torch.cuda.Event()
        self.graph = torch.cuda.CUDAGraph()

    def capture(self):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.net(self.x)
        with torch.cuda.graph(self.graph, stream=self.side):
            self.y = self.net(self.x)
        torch.cuda.current_stream().wait_stream(self.side)

    def submit(self, x):
        self.x.copy_(x)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.graph.replay()
            {inside}
        {after}
        return self.{taken}  # taken


def run(canceller, blocks):
    canceller.capture()
    for x in blocks:
        canceller.submit(x)
"""
NEW_STREAM, NOTE = "torch.cuda.Stream()", "self.done.record()"


@pytest.mark.parametrize(
    ("made", "inside", "after", "taken", "found"),
    [
        (NEW_STREAM, "pass", "pass", "y.clone()", True),
        (NEW_STREAM, NOTE, "pass", "y[:2].argmax(-1)", True),
        (NEW_STREAM, NOTE, "torch.cuda.current_stream().wait_event(self.done)", "y.clone()", False),
        (NEW_STREAM, NOTE, "self.done.synchronize()", "y.clone()", False),
        (NEW_STREAM, "self.side.synchronize()", "pass", "y.clone()", False),
        (NEW_STREAM, "pass", "pass", "y", False),  # the caller may wait
        (NEW_STREAM, "pass", "pass", "y.view(-1)", False),
        (NEW_STREAM, "pass", "pass", "x.clone()", False),
        ("stream", "pass", "pass", "y.clone()", False),  # may be the current stream
    ],
)
def test_an_output_is_read_after_a_replay_on_another_stream(
    tmp_path: Path, made: str, inside: str, after: str, taken: str, found: bool
) -> None:
    source = TAKEN.format(made=made, inside=inside, after=after, taken=taken)
    assert lines_of(tmp_path, "GS714", source) == ["taken"] * found


PINNED = """\
import torch


class Denoiser:
    def __init__(self, net, size):
        self.host = torch.zeros(size, pin_memory=True)
        self.chunk = torch.zeros(size, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        net(self.chunk)
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.clean = net(self.chunk)

    def push(self, samples):
        {wait}
        self.host.copy_(samples)
        self.chunk.copy_(self.host, non_blocking=True)  # push
        self.graph.replay()
        return self.clean.clone()


def run(denoiser: Denoiser, recording, every):
    kept = []
    for place, samples in enumerate(recording):
        kept.append(denoiser.push(samples))
        {inside}
    return torch.cat(kept).cpu()
"""


@pytest.mark.parametrize(
    ("wait", "inside", "expected"),
    [
        ("pass", "pass", ["push"]),  # the wait after the loop comes too late
        ("pass", "if place % every == 0: torch.cuda.current_stream().synchronize()", ["push"]),
        ("pass", "torch.cuda.current_stream().synchronize()", []),
        ("self.copied.synchronize()", "pass", []),
    ],
)
def test_pinned_memory_is_filled_again_only_after_a_wait_in_each_round(
    tmp_path: Path, wait: str, inside: str, expected: list[str]
) -> None:
    assert lines_of(tmp_path, "GS714", PINNED.format(wait=wait, inside=inside)) == expected
    told = [one for one in scan_paths([tmp_path], Config(root=tmp_path)).findings if one.code == "GS714"]
    assert all(one.message.startswith("the host overwrites `self.host` without waiting for ") for one in told)
    assert all(one.fix.startswith("have the host wait for an event recorded after the copy") for one in told)


LOCAL = """
import torch


def main(net, batches):
    rows = torch.zeros(64, 8, device="cuda")
    kept = torch.zeros(64, 8).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        marks = net(rows)
    copier = torch.cuda.Stream()
    for batch in batches:
        {before}
        with torch.cuda.stream(copier):
            rows.copy_(batch.pin_memory(), non_blocking=True)  # refill
        {after}
        graph.replay()
        with torch.cuda.stream(copier):
            kept.copy_(batch, non_blocking=True)  # not read by the graph
"""


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("pass", "pass", ["refill"]),
        ("copier.wait_stream(torch.cuda.current_stream())", "pass", ["refill"]),
        (
            "copier.wait_stream(torch.cuda.current_stream())",
            "torch.cuda.current_stream().wait_stream(copier)",
            [],
        ),
    ],
)
def test_a_local_tensor_that_the_graph_reads_is_refilled_in_order(
    tmp_path: Path, before: str, after: str, found: list[str]
) -> None:
    assert lines_of(tmp_path, "GS714", LOCAL.format(before=before, after=after)) == found


PARTS = """\
import torch


class Prefetcher:
    def __init__(self, layers, net):
        self.layers, self.net = layers, net
        self.line = torch.cuda.Stream()

    def ask(self, number, up):
        layer = {made}
        self.line{waits}
        with torch.cuda.stream(self.line):
            layer.up.copy_(up, non_blocking=True)  # ask

    def load(self, weights):
        tensors = {walked}
        self.line{waits}
        with torch.cuda.stream(self.line):
            for name, value in weights.items():
                tensors[name].copy_(value, non_blocking=True)  # load


class Model:
    def __init__(self, net, size):
        self.rows = torch.zeros(size, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        line = torch.cuda.Stream()
        with torch.cuda.graph(self.graph, stream=line):
            self.marks = net(self.rows)

    def __call__(self, prefetcher: Prefetcher):
        self.graph.replay()
        torch.cuda.current_stream().wait_stream(prefetcher.line)
"""
OLD = "self.layers[number]", "dict(self.net.named_parameters())"
NEW = "self.layers[number].copied()", "{name: torch.empty_like(value) for name, value in weights.items()}"


@pytest.mark.parametrize(
    ("parts", "waits", "expected"),
    [
        (OLD, ".query()", ["ask", "load"]),
        (OLD, ".wait_stream(torch.cuda.current_stream())", []),
        (NEW, ".query()", []),
    ],
)
def test_a_local_name_for_a_part_of_an_object(
    tmp_path: Path, parts: tuple[str, str], waits: str, expected: list[str]
) -> None:
    made, walked = parts
    assert lines_of(tmp_path, "GS714", PARTS.format(made=made, walked=walked, waits=waits)) == expected


WALKED = """\
import threading

import torch


class Tuner(threading.Thread):
    def __init__(self, policy):
        super().__init__()
        self.weights = list(policy.parameters())
        self.staging = [torch.empty(w.shape, pin_memory=True) for w in self.weights]
        self.line = torch.cuda.Stream()

    def run(self):
        copies = [w.clone() for w in self.weights]
        {waits}
        with torch.cuda.stream(self.line):
            for weight, block in zip({walked}):
                weight.copy_(block, non_blocking=True)  # tune


class Model:
    def __init__(self, policy, size):
        self.rows = torch.zeros(size, 8, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.marks = policy(self.rows)


def serve(policy, model: Model, requests):
    tuner = Tuner(policy)
    tuner.start()
    for rows in requests:
        torch.cuda.current_stream().wait_stream(tuner.line)
        model.rows.copy_(rows)
        model.graph.replay()
"""


@pytest.mark.parametrize(
    ("walked", "waits", "found"),
    [
        ("self.weights, self.staging, strict=True", "pass", True),
        ("self.weights, self.staging", "pass", True),
        ("copies, self.staging", "pass", False),
        ("self.weights, self.staging", "self.line.wait_stream(torch.cuda.current_stream())", False),
    ],
)
def test_a_loop_over_the_parts_of_an_object(tmp_path: Path, walked: str, waits: str, found: bool) -> None:
    source = WALKED.format(walked=walked, waits=waits)
    assert lines_of(tmp_path, "GS714", source) == ["tune"] * found


GRABBED = """\
import threading

import torch


class Grabber(threading.Thread):
    def __init__(self, ready):
        super().__init__()
        self.block = torch.empty(4, pin_memory=True)
        {before}
        self.ready = ready

    def run(self):
        for number in range(16):
            {fills}
            self.ready.put(number)


class Cutter:
    def __init__(self, net):
        self.frame = torch.zeros(4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        net(self.frame)
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.mask = net(self.frame)

    def cut(self, block):
        self.frame.copy_(block, non_blocking=True)  # cut
        self.graph.replay()
        return self.mask.clone()


def main(net, ready):
    cutter, grabber = Cutter(net), Grabber(ready)
    grabber.start()
    masks = []
    while ready.get() is not None:
        masks.append(cutter.cut(grabber.block))
    torch.save(masks, "masks.pt")
"""


@pytest.mark.parametrize(
    ("before", "fills", "found"),
    [
        ("pass", "self.block.copy_(torch.rand(4))", True),
        ("pass", "self.block.uniform_(0.0, 1.0)", True),
        ("pass", "self.block.requires_grad_(False)", False),
        ("self.block.normal_()", "pass", False),
    ],
)
def test_a_thread_fills_pinned_memory(tmp_path: Path, before: str, fills: str, found: bool) -> None:
    assert lines_of(tmp_path, "GS714", GRABBED.format(before=before, fills=fills)) == ["cut"] * found


SNAPSHOTS = """\
import torch


class Sampler:
    def __init__(self, net, head, x):
        self.head, self.x = head, x
        self.hosts = [torch.zeros(4).pin_memory() for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]
        self.side = torch.cuda.Stream()
        net(self.x)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=torch.cuda.Stream()):
            self.latent = net(self.x)

    def show(self, number):
        {before}
        with torch.cuda.stream(self.side):
            {inside}
            self.hosts[number % 2].copy_(self.latent, non_blocking=True)  # copy
            self.events[number % 2].record()

    def step(self, x, number):
        self.x.copy_(x)
        {runs}
        self.show(number)

    def finish(self):
        {after}
        return self.hosts
"""
WAIT_ALL = "for event in self.events: event.synchronize()"
FORK = "self.side.wait_stream(torch.cuda.current_stream())"


@pytest.mark.parametrize(
    ("before", "inside", "runs", "after", "found"),
    [
        (FORK, "pass", "self.graph.replay()", WAIT_ALL, []),
        (FORK, "pass", "self.graph.replay()", "[event.synchronize() for event in self.events]", []),
        (FORK, "pass", "self.graph.replay()", "pass", ["copy"]),
        ("pass", "pass", "self.graph.replay()", WAIT_ALL, ["copy"]),
        ("pass", "self.ready.wait()", "self.graph.replay()", WAIT_ALL, []),
        ("pass", "torch.cuda.current_stream().wait_event(self.ready)", "self.graph.replay()", WAIT_ALL, []),
        ("pass", "pass", "with torch.cuda.stream(self.side): self.graph.replay()", WAIT_ALL, ["copy"]),
    ],
)
def test_a_side_stream_reads_a_result(
    tmp_path: Path, before: str, inside: str, runs: str, after: str, found: list[str]
) -> None:
    source = SNAPSHOTS.format(before=before, inside=inside, runs=runs, after=after)
    assert lines_of(tmp_path, "GS714", source) == found


LANE = """\
import torch


class Lane:
    def __init__(self):
        self.graph = torch.cuda.CUDAGraph()
        self.out = None


class Server:
    def __init__(self, net, x, stream):
        self.x = x
        self.host = torch.zeros(8, 16){pinned}
        self.lane = self.record(net, stream)

    def record(self, net, stream):
        lane = Lane()
        net(self.x)
        with torch.cuda.graph(lane.graph, stream=stream):
            lane.out = net(self.x)
        return lane

    def step(self, n):
        self.lane.graph.replay()
        self.host[:n].copy_(self.lane.out[:n], non_blocking={how})
        {between}
        return self.host[:n].numpy().copy()  # read
"""


@pytest.mark.parametrize(
    ("pinned", "how", "between", "found"),
    [
        (".pin_memory()", "True", "pass", ["read"]),
        (".pin_memory()", "True", "torch.cuda.synchronize()", []),
        (".pin_memory()", "False", "pass", []),
        ("", "True", "pass", []),  # the copy waits
    ],
)
def test_the_host_reads_the_result_of_a_lane(
    tmp_path: Path, pinned: str, how: str, between: str, found: list[str]
) -> None:
    assert lines_of(tmp_path, "GS714", LANE.format(pinned=pinned, how=how, between=between)) == found


RESULTS = """\
import torch


class Results:
    def __init__(self):
        self.host = [torch.empty(4, pin_memory={pinned}) for _ in range(2)]
        self.done = [torch.cuda.Event() for _ in range(2)]

    def send(self, k, t):
        self.host[k % 2].copy_(t, non_blocking=True)
        self.done[k % 2].record()

    def get(self, k):
        {wait}
        return self.host[k % 2].tolist()  # read


def main(net, batches):
    x, results = torch.zeros(4, 16, device="cuda"), Results()
    net(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        y = net(x)
    for k, batch in enumerate(batches):
        x.copy_(batch)
        graph.replay()
        results.send(k, y)
        {between}
        print({get})
"""


@pytest.mark.parametrize(
    ("pinned", "wait", "between", "get", "found"),
    [
        ("True", "pass", "pass", "results.get(k)", ["read"]),
        ("True", "pass", "pass", "k", []),  # another file may call the method, after a wait
        ("True", "self.done[k % 2].synchronize()", "pass", "results.get(k)", []),
        ("True", "pass", "torch.cuda.synchronize()", "results.get(k)", []),
        ("True", "pass", "print(y.sum().item())", "results.get(k)", []),
        ("False", "pass", "pass", "results.get(k)", []),
    ],
)
def test_another_method_reads_a_result(
    tmp_path: Path, pinned: str, wait: str, between: str, get: str, found: list[str]
) -> None:
    source = RESULTS.format(pinned=pinned, wait=wait, between=between, get=get)
    assert lines_of(tmp_path, "GS714", source) == found

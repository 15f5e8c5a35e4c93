"""Reports as scan and capture write them, and the source that they point into."""

from __future__ import annotations

from collections.abc import Sequence

from graphsafe.report.fingerprint import fingerprint
from graphsafe.report.model import (
    Bucket,
    CallSite,
    DeviceResult,
    Edit,
    Environment,
    Finding,
    Limit,
    Location,
    Plan,
    PlannedModule,
    Report,
    Segment,
    Suppression,
    Tool,
)

FILES = {
    "engine/layer.py": """\
import torch
from torch import nn

from engine.routing import route


class DecoderLayer(nn.Module):
    def forward(self, hidden: torch.Tensor, lengths: torch.Tensor):
        scale = torch.zeros(hidden.shape[0], device=hidden.device)
        weights = torch.empty_like(hidden)
        longest = int(lengths.max())  # the longest sequence of the batch
        if hidden.isnan().any():
            raise ValueError
        label = "überlänge 长度"; keep = hidden[lengths > 0]
        out = self.attention(hidden, self.rotary(hidden, lengths), self.keys[lengths.item()], scale)
\tself.seen = lengths
        return route(out, longest)
""",
    "engine/routing.py": """\
def route(tokens, n):
    counts = bucket(tokens)
    return tokens[:n], counts


def bucket(tokens):
    print(f"tokens: {tokens.sum()}")
    return tokens.bincount()
""",
}


def source(path: str) -> Sequence[str] | None:
    text = FILES.get(path)
    return None if text is None else text.splitlines()


def finding(code: str, rule: str, path: str, spot: str, function: str, message: str, **more: object) -> Finding:
    """A finding at the first place in `path` where `spot` stands."""
    lines = FILES[path].splitlines()
    line = next(number for number, text in enumerate(lines, 1) if spot in text)
    column = lines[line - 1].index(spot) + 1
    values: dict[str, object] = {
        "code": code,
        "rule": rule,
        "level": "error",
        "confidence": "likely",
        "source": "scan",
        "device": None,
        "location": Location(path, line, column, line, column + len(spot), function),
        "call_chain": (),
        "message": message,
        "why": "The host waits for the device, and waiting is not permitted while a stream is being captured.",
        "fix": "Keep the value on the device: `torch.where`, a mask, or a 0-d tensor as an operand.",
        "fingerprint": fingerprint(code, path, function, spot, 0),
    }
    return Finding(**(values | more))  # type: ignore[arg-type]


LAYER, ROUTING = "engine/layer.py", "engine/routing.py"
FORWARD = "DecoderLayer.forward"
CHAIN = (CallSite(LAYER, 17, FORWARD), CallSite(ROUTING, 2, "route"))
READ = "`int(lengths.max())` reads a device tensor back to the host"
ONCE = "Allocate it once, in `__init__`, and fill it in place."

FINDINGS = (
    finding(
        "GS101",
        "scalar-read",
        LAYER,
        "int(lengths.max())",
        FORWARD,
        READ,
        edits=(Edit(11, 19, 11, 37, "self.longest"),),
    ),
    finding(
        "GS102",
        "device-value-branch",
        LAYER,
        "hidden.isnan().any()",
        FORWARD,
        "`if` branches on a device value",
        further_roots=2,
        data={"root": "forward of a torch module"},
    ),
    finding(
        "GS202",
        "mask-index",
        LAYER,
        "hidden[lengths > 0]",
        FORWARD,
        "`hidden[lengths > 0]` has as many rows as the mask has trues",
        confidence="possible",
        count=4,
    ),
    finding(
        "GS101",
        "scalar-read",
        LAYER,
        "lengths.item()",
        FORWARD,
        "`lengths.item()` reads `lengths`, an input of the step, back to the host",
        data={"value": "input"},
    ),
    finding(
        "GS401",
        "fresh-buffer",
        LAYER,
        "torch.zeros(hidden.shape[0], device=hidden.device)",
        FORWARD,
        "`torch.zeros` allocates every step",
        level="note",
        fix=ONCE,
    ),
    finding(
        "GS401",
        "fresh-buffer",
        LAYER,
        "torch.empty_like(hidden)",
        FORWARD,
        "`torch.empty_like` allocates every step",
        level="note",
        fix=ONCE,
    ),
    finding(
        "GS703",
        "rebound-tensor",
        LAYER,
        "self.seen = lengths",
        FORWARD,
        "`self.seen` is bound to another tensor every step",
        level="warning",
    ),
    finding(
        "GS104",
        "tensor-format",
        ROUTING,
        'f"tokens: {tokens.sum()}"',
        "bucket",
        "an f-string formats `tokens.sum()`, a device tensor",
        call_chain=CHAIN,
    ),
    finding(
        "GS201",
        "dynamic-output-op",
        ROUTING,
        "tokens.bincount()",
        "bucket",
        "the size of `tokens.bincount()` depends on the data",
        call_chain=CHAIN,
        suppressed=Suppression("statistics, switched off in serving"),
    ),
    finding(
        "GS203",
        "device-sized-extent",
        ROUTING,
        "tokens[:n]",
        "route",
        "`n` comes from the device",
        level="note",
        call_chain=CHAIN[:1],
    ),
)

ENVIRONMENT = Environment(
    python="3.12.3",
    torch="2.11.0+cu130",
    cuda="13.0",
    driver="580.1",
    devices=("NVIDIA H200", "NVIDIA H200"),
    facts="torch-2.11",
    settings={"CUDA_LAUNCH_BLOCKING": "0"},
)

SCAN = Report(
    tool=Tool("graphsafe", "0.1.0"),
    command="scan",
    created="2026-11-21T03:00:00Z",
    environment=Environment(
        python="3.12.3", torch=None, cuda=None, driver=None, devices=(), facts="torch-2.11", settings={}
    ),
    target=None,
    verdict=None,
    evidence=None,
    findings=FINDINGS,
    limits=(Limit("no-root", "scripts/", "no forward method, capture site or entry point was found under it"),),
    devices=None,
)

EMPTY_SCAN = Report(
    tool=SCAN.tool,
    command="scan",
    created=SCAN.created,
    environment=SCAN.environment,
    target=None,
    verdict=None,
    evidence=None,
    findings=(),
    limits=(),
    devices=None,
)

RNG = {"cuda:1": {"seed": 0, "offset_before": 0, "offset_after": 0, "draw": None}}
FAILED = {
    "construct": {"status": "pass", "built": True, "left_capturing": False, "rng": RNG, "captures": []},
    "step": {
        "status": "fail",
        "ran": True,
        "syncs": 3,
        "copies": 1,
        "allocations": 12,
        "by_line": [],
        "unknown_operations": [],
    },
    "state": {"status": "pass", "changed": []},
    "capture": {
        "status": "fail",
        "first_error": {
            "message": "CUDA error: operation not permitted when stream is capturing",
            "type": "AcceleratorError",
        },
    },
    "memory": {"status": "timeout", "reason": "300 s"},
    "timing": {"status": "pass", "eager_ms": 7.2, "graph_ms": None, "launches": 912},
}


def held(*lines: tuple[str | None, int, int, int, int]) -> dict[str, object]:
    """What lines hold of memory: place, bytes at once, allocated in all, how often, kept."""
    keys = ("place", "bytes", "allocated", "count", "kept")
    told = [dict(zip(keys, line, strict=True)) for line in lines]
    return {**{key: sum(line[at] for line in lines) for at, key in enumerate(keys) if at}, "lines": told}  # type: ignore[misc]


CHANGE = {"name": "cache.position", "how": "host", "before": "1", "after": "2", "place": "engine/layer.py:9"}
PASSED = {
    "construct": FAILED["construct"],
    "step": {
        "status": "pass",
        "ran": True,
        "syncs": 0,
        "copies": 0,
        "allocations": 9,
        "by_line": [],
        "unknown_operations": [],
    },
    "state": {"status": "pass", "changed": [CHANGE]},
    "capture": {"status": "pass", "nodes": {"kernel": 910, "memcpy": 2}, "first_error": None, "empty": False},
    "replay": {
        "status": "pass",
        "reference": "independent",
        "checks": [
            {"name": "output", "result": "equal", "equal": True, "max_abs": 0.0, "floor": 0.0, "rounding": None},
            {
                "name": "cache.keys",
                "result": "rounding",
                "equal": False,
                "max_abs": 1e-7,
                "floor": 2e-7,
                "rounding": None,
            },
        ],
        "varied": 3,
        "rng_law": "skipped",
        "first_step": "skipped",
    },
    "memory": {
        "status": "pass",
        "pool_bytes": 35651584,
        "peak_bytes": 1288490188,
        "step": held(("engine/layer.py:9", 16 << 20, 16 << 20, 1, 0), (None, 4 << 20, 8 << 20, 2, 0)),
        "pool": held(("engine/layer.py:9", 16 << 20, 16 << 20, 1, 0), ("engine/layer.py:15", 0, 4096, 1, 4096)),
    },
    "timing": {"status": "pass", "eager_ms": 7.2, "graph_ms": 1.4, "launches": 912},
}

PLAN = Plan(
    reason="replays of the plan differ from the reference in output",
    coverage=0.5,
    operations=8,
    eager_ms=1.25,
    planned_ms=0.75,
    pool_bytes=2097152,
    segments=(
        Segment("graph", 4, 5, 0.25, "layers.0"),
        Segment(
            "eager",
            4,
            None,
            0.5,
            "layers.0",
            "GS101",
            Location("model.py", 3, 9, 4, 20, "Layer.forward"),
            "torch.Tensor.item (model.py:3)",
        ),
    ),
    modules=(PlannedModule("layers.0", "mixed", 8, 4),),
    guards=("shapes, dtypes and places of the step's inputs",),
)

CAPTURE = Report(
    tool=Tool("graphsafe", "0.1.0"),
    command="capture",
    created="2026-11-21T03:00:00Z",
    environment=ENVIRONMENT,
    target="examples/decoder_bad/factory.py:build",
    verdict="not-ready",
    evidence="measured",
    findings=tuple(
        finding(
            one[0],
            one[1],
            LAYER,
            one[2],
            FORWARD,
            one[3],
            confidence="proven",
            source="capture",
            device="cuda:1",
            status=one[4],
        )
        for one in (
            (
                "GS101",
                "scalar-read",
                "int(lengths.max())",
                READ,
                "confirmed",
            ),
            ("GS102", "device-value-branch", "hidden.isnan().any()", "`if` branches on a device value", None),
        )
    ),
    limits=(Limit("not-varied", "argument `mask`", "every other value made the reference NaN, so it kept its own"),),
    devices=(
        DeviceResult("cuda:0", "ready", (), PASSED),
        DeviceResult(
            "cuda:1",
            "not-ready",
            (
                Bucket({"batch": 1, "q_len": 2}, "ready", PASSED),
                Bucket({"batch": 4, "q_len": 2}, "not-ready", FAILED),
            ),
            FAILED,
        ),
    ),
    plan=PLAN,
)

READY = Report(
    tool=CAPTURE.tool,
    command="capture",
    created=CAPTURE.created,
    environment=ENVIRONMENT,
    target="examples/decoder_good/factory.py:build",
    verdict="ready",
    evidence="predicted",
    findings=(),
    limits=(),
    devices=(DeviceResult("sim:0", "ready", (), PASSED),),
)

ALL = {"scan": SCAN, "empty scan": EMPTY_SCAN, "capture": CAPTURE, "ready": READY}

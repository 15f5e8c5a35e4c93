"""What construction did to the device: generators, captures of its own, the current device and stream, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graphsafe.capture.buckets.declared import declaration_of
from graphsafe.capture.lines.frames import absolute, function_name, is_user_file
from graphsafe.capture.own_graphs.usage import own_graphs_watched
from graphsafe.capture.session import opened
from graphsafe.capture.state import Snapshot, StateError, reach_of
from graphsafe.capture.state.objects import code_of
from graphsafe.capture.targets import TargetError
from graphsafe.capture.trial import Broken, try_inputs

if TYPE_CHECKING:
    from graphsafe.capture.device.protocol import CaptureAttempt, Device, RandomState
    from graphsafe.capture.job import Channel, Job
    from graphsafe.capture.session import Session


def run(job: Job, channel: Channel) -> None:
    """The build child: first and alone. Looks at what construction left, then finds inputs that can be varied."""
    attempts: list[CaptureAttempt] = []
    threads = set(threading.enumerate())
    try:
        _look(job, channel, attempts, threads)
    except TargetError as error:
        # A constructor that leaves a capture open often fails for that very reason, later and elsewhere.
        if attempts and error.stage != "step":
            captures = [asdict(attempt) for attempt in attempts]
            channel.tell(construct={"status": "fail", "built": False, "captures": captures})
        raise


def _look(job: Job, channel: Channel, attempts: list[CaptureAttempt], threads: set[threading.Thread]) -> None:
    with opened(job, channel, attempts) as session:
        channel.phase("look at what construction left")
        device = session.device
        channel.tell(
            construct=construct(session, attempts, threads),
            entry=_entry(session.subject.fn),
            environment={"device": device.label(), "driver": device.driver(), **_versions(), "libraries": _libraries()},
        )
        declared = declaration_of(session.subject)
        channel.tell(declared=None if declared is None else asdict(declared))
        snapshot = Snapshot(device, session.subject)
        channel.tell(digests=snapshot.digests, unreadable=reach_of(session.subject).unreadable)
        own: dict[str, Any] = {}
        try:
            with own_graphs_watched(session, own):
                tried = try_inputs(session, snapshot)
            channel.tell(limits=tried.limits, unvaried=tried.unvaried)
        except Broken as broken:
            channel.tell(broken_by=broken.path)
            session.ranks.gone = True
        except StateError as error:
            channel.tell(limits=[{"kind": "not-varied", "what": "all inputs", "why": str(error)}])
        memory = device.memory()
        channel.tell(memory=asdict(memory), own=own)


def construct(session: Session, attempts: list[CaptureAttempt], threads: set[threading.Thread]) -> dict[str, Any]:
    device = session.device
    states = device.random_states()
    draws = {name: device.draw(name) for name in states}
    broken = [name for name, error in draws.items() if error is not None]
    repaired = {name: _repaired(device, name) for name in broken}
    left_capturing = any("captur" in (draws[name] or "") for name in broken)
    return {
        "status": "fail" if broken else "pass",
        "built": True,
        "left_capturing": left_capturing,
        "rng": {name: _random(state, draws[name], session.job.seed) for name, state in states.items()},
        "repaired": repaired,
        "captures": [asdict(attempt) for attempt in attempts],
        "stands_on": device.stands_on(),
        "generators": sorted(reach_of(session.subject).generators),
        "threads": sorted(thread.name for thread in set(threading.enumerate()) - threads),
    }


def _entry(function: Any) -> Mapping[str, Any] | None:
    """Where the stepped function is written, for what none of its lines can be blamed for."""
    code = code_of(function)
    if code is None or not is_user_file(code.co_filename):
        return None
    return {"path": absolute(code.co_filename), "line": code.co_firstlineno, "function": function_name(code)}


def _random(state: RandomState, draw: str | None, seed: int) -> Mapping[str, Any]:
    """Construction starts from a known seed at offset 0."""
    return {
        "seed": state.seed,
        "reseeded": state.seed != seed * 1_000_003,
        "offset_before": 0,
        "offset_after": state.offset,
        "draw": draw,
    }


def _repaired(device: Device, name: str) -> bool:
    """Whether the repair works: applied here, then drawn again."""
    try:
        device.repair_generator(name)
    except RuntimeError:
        return False
    return device.draw(name) is None


_LIBRARIES = (
    *("accelerate", "deep_gemm", "deepspeed", "flash_attn", "flashinfer", "megatron", "sglang", "transformer_engine"),
    *("transformers", "triton", "vllm", "xformers"),
)


def _libraries() -> dict[str, str]:
    """Versions of those that the target has imported."""
    found = {}
    for name in _LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def _versions() -> dict[str, str | None]:
    import torch

    return {"torch": torch.__version__, "cuda": torch.version.cuda}

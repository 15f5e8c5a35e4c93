"""The build child: finds what construction changed on the device and in the process (generators, captures of its own,
current device and stream, threads)."""

from __future__ import annotations

import sys
import threading

import torch

from graphsafe.capture.answers.build import BrokenBy, Built, Constructed, Limits, Platform
from graphsafe.capture.child.buckets.declared import declaration_of
from graphsafe.capture.child.dropped_gradients import save_dropped_gradients
from graphsafe.capture.child.own_graphs.probe import own_graphs_watched
from graphsafe.capture.child.session import Session, opened
from graphsafe.capture.child.state import Snapshot, StateError, defined_at, reachable_state, tensors_of_refresh
from graphsafe.capture.child.targets import TargetError
from graphsafe.capture.child.trial import Broken, try_inputs
from graphsafe.capture.child.vary import fill_zero_parameters
from graphsafe.capture.device.protocol import Device
from graphsafe.capture.shared.job import Channel, Job
from graphsafe.report.model import Limit
from graphsafe.report.probes.construct import Attempt, Construct, RandomState


def run(job: Job, channel: Channel) -> None:
    """Examine the state after construction, then find inputs that can be varied. This child runs first, and alone."""
    attempts: list[Attempt] = []
    threads = set(threading.enumerate())
    try:
        with opened(job, channel, attempts) as session:
            channel.phase("look at what construction left")
            send_built(session, attempts, threads)
            filled = fill_zero_parameters(session.device, session.subject)
            snapshot = Snapshot(session.device, session.subject)
            of_refresh = session.device.digests(tensors_of_refresh(session.subject))
            digests = {**of_refresh, **snapshot.digests}
            channel.send(Constructed(digests, reachable_state(session.subject).unreadable))
            with own_graphs_watched(session) as own:
                _vary(session, snapshot, _filled(filled))
            channel.send(session.device.memory(), own())
    except TargetError as error:
        # If a constructor leaves a capture open, it often fails on a later line because of that.
        if attempts and error.stage != "step":
            channel.send(Construct("fail", built=False, captures=tuple(attempts)))
        raise


def _vary(session: Session, snapshot: Snapshot, limits: list[Limit]) -> None:
    try:
        tried, varied = try_inputs(session, snapshot)
        session.channel.send(Limits((*session.device.limits(), *limits, *tried)), varied)
        save_dropped_gradients(session)
    except Broken as broken:
        session.channel.send(BrokenBy(broken.path))
        session.ranks.gone = True
    except StateError as error:
        session.channel.send(Limits((Limit("not-varied", "all inputs", str(error)),)))


def send_built(session: Session, attempts: list[Attempt], threads: set[threading.Thread]) -> None:
    """Report the built target, and the state that construction left. Before construction, each generator had a known
    seed and offset 0."""
    device, subject = session.device, session.subject
    declared, entry = declaration_of(subject), defined_at(subject.fn)
    platform = Platform(device.label(), device.driver(), torch.__version__, torch.version.cuda, _libraries())
    states = device.random_states()
    draws = {name: device.draw(name) for name in states}
    broken = [name for name, error in draws.items() if error is not None]
    repaired = {name: _repaired(device, name) for name in broken}
    construct = Construct(
        "fail" if broken else "pass",
        built=True,
        left_capturing=any("captur" in (draws[name] or "") for name in broken),
        rng={
            name: RandomState(one.seed, 0, one.offset, draws[name], reseeded=one.seed != session.job.first_seed)
            for name, one in states.items()
        },
        captures=tuple(attempts),
        repaired=repaired,
        stands_on=device.current_stream_name(),
        generators=tuple(sorted(reachable_state(subject).generators)),
        threads=tuple(sorted(thread.name for thread in set(threading.enumerate()) - threads)),
    )
    has_refresh = subject.refresh is not None
    session.channel.send(construct, Built(entry, tuple(subject.events), has_refresh, platform, declared))


def _filled(paths: list[str]) -> list[Limit]:
    """Return the limit for parameters that were zero and were given values. The limit names at most eight
    parameters."""
    if not paths:
        return []
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    why = "zero everywhere, so that outputs may not depend on inputs: small random values replaced the zeros"
    return [Limit("zero-parameters", ", ".join(paths[:8]) + more, why)]


def _repaired(device: Device, name: str) -> bool:
    """Apply the repair of a broken generator and draw again. Return whether the draw works."""
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
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in _LIBRARIES}
    return {name: version for name, version in versions.items() if isinstance(version, str)}
